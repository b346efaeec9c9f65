/** A small front end of vLLM: lets one engine join, sends it requests, and reads its answers. */
import { WallClock } from "../../../src/base/clock.ts";
import { LAYOUTS } from "../../../src/servers/vllm-engine/messages/layouts.ts";
import { jsonValue } from "../../../src/servers/vllm-engine/messages/read.ts";
import { decodeMsgpack } from "../../../src/wire/msgpack/reader.ts";
import type { MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { MsgpackWriter } from "../../../src/wire/msgpack/writer.ts";
import { ZmtpSocket } from "../../../src/wire/zmtp/socket.ts";

const layout = LAYOUTS["0.33"];
type Json = Readonly<Record<string, unknown>>;

/** A message of the engine. Its outputs have the names of the fields. */
export interface EngineMessage extends Json {
  readonly outputs: readonly Json[];
}

export function encoded(value: MsgpackValue): Buffer {
  const writer = new MsgpackWriter();
  writer.value(value);
  return writer.copy();
}
export const mapOf = (values: Readonly<Record<string, MsgpackValue>>): MsgpackValue => new Map(Object.entries(values));
const named = (names: readonly string[], list: readonly unknown[]): Json =>
  Object.fromEntries(names.map((name, at) => [name, list[at]]));

export class SmallFront {
  /** Statuses of the handshake, in order. */
  readonly statuses: string[] = [];
  registration: Json | null = null;
  readonly messages: EngineMessage[] = [];
  readonly #clock = new WallClock();
  readonly #timer = {
    nowUs: () => this.#clock.now(),
    after: (us: number, act: () => void) => this.#clock.at(this.#clock.now() + us, act),
  };
  readonly #input = new ZmtpSocket("ROUTER", {
    timer: this.#timer,
    onMessage: ([body]) => {
      this.registration ??= jsonValue(decodeMsgpack(body!)) as Json;
    },
  });
  readonly #output = new ZmtpSocket("PULL", {
    timer: this.#timer,
    onMessage: ([body]) => {
      const message = named(layout.outputs, jsonValue(decodeMsgpack(body!)) as readonly unknown[]);
      const outputs = (message.outputs as readonly unknown[][]).map((one) => named(layout.output, one));
      this.messages.push({ ...message, outputs });
    },
  });
  readonly #handshake = new ZmtpSocket("ROUTER", {
    timer: this.#timer,
    onMessage: ([body], peer) => {
      const { status } = jsonValue(decodeMsgpack(body!)) as { readonly status: string };
      this.statuses.push(status);
      if (status === "HELLO") this.#handshake.sendTo(peer, [this.#init()]);
    },
  });
  readonly #addresses: { readonly inputs: readonly string[]; readonly outputs: readonly string[] };
  /** Port of the handshake. */
  readonly rpcPort: number;

  /** `rpcPort` 0: any free port. `furtherOutputs`: addresses of processes with the indices 1, 2, …, for their answers. */
  constructor(rpcPort = 0, furtherOutputs: readonly string[] = []) {
    const [input, output] = [this.#input, this.#output].map((socket) => socket.bind("tcp://127.0.0.1:0"));
    this.#addresses = { inputs: [input!], outputs: [output!, ...furtherOutputs] };
    this.rpcPort = Number(this.#handshake.bind(`tcp://127.0.0.1:${rpcPort}`).split(":").at(-1));
  }

  /** Sends frames to the engine's input. */
  send(frames: readonly Uint8Array[]): void {
    const [engine] = this.#input.peers;
    this.#input.sendTo(engine!, frames);
  }

  /** Sends a request with a prompt of three tokens. */
  add(
    id: string,
    params: Readonly<Record<string, MsgpackValue>> = {},
    prompt: readonly number[] | null = [1, 2, 3],
  ): void {
    this.send([Buffer.from([0]), encoded([id, prompt, null, mapOf(params)])]);
  }

  abort(...ids: readonly string[]): void {
    this.send([Buffer.from([1]), encoded(ids)]);
  }

  call(id: number | bigint, method: string, ...args: readonly MsgpackValue[]): void {
    this.send([Buffer.from([3]), encoded([0, id, method, args])]);
  }

  /** Outputs of a request so far, in order. */
  outputsOf(id: string): readonly Json[] {
    return this.messages.flatMap(({ outputs }) => outputs.filter(({ request_id }) => request_id === id));
  }

  /** Waits until a condition holds. Rejects after ten seconds. */
  async until(isDone: () => boolean): Promise<void> {
    for (let turns = 0; !isDone(); turns++) {
      if (turns > 5000) throw new Error(`it did not happen: ${JSON.stringify(this.messages.at(-1))}`);
      await Bun.sleep(2);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#handshake, this.#input, this.#output].map((socket) => socket.close()));
    this.#clock.close();
  }

  #init(): Buffer {
    const addresses = mapOf({
      ...this.#addresses,
      coordinator_input: null,
      coordinator_output: null,
      frontend_stats_publish_address: "tcp://127.0.0.1:1",
    });
    return encoded(mapOf({ addresses, parallel_config: new Map() }));
  }
}

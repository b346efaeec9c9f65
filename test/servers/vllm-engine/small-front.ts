/** A small front end of vLLM: lets engines join, sends them requests, and reads their answers. */
import { WallClock } from "../../../src/base/clock.ts";
import { LAYOUTS } from "../../../src/servers/vllm-engine/messages/layouts.ts";
import { jsonValue } from "../../../src/servers/vllm-engine/messages/read.ts";
import { decodeMsgpack } from "../../../src/wire/msgpack/reader.ts";
import type { MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { MsgpackWriter } from "../../../src/wire/msgpack/writer.ts";
import { ZmtpSocket } from "../../../src/wire/zmtp/socket.ts";

const layout = LAYOUTS["0.33"];
type Json = Readonly<Record<string, unknown>>;

/** A message of the engine. Its outputs have the names of the fields. `frames`: those after the first one. */
export interface EngineMessage extends Json {
  readonly outputs: readonly Json[];
  readonly frames: readonly Uint8Array[];
}

export function encoded(value: MsgpackValue): Buffer {
  const writer = new MsgpackWriter();
  writer.value(value);
  return writer.copy();
}
export const mapOf = (values: Readonly<Record<string, MsgpackValue>>): MsgpackValue => new Map(Object.entries(values));
const named = (names: readonly string[], list: readonly unknown[]): Json =>
  Object.fromEntries(names.map((name, at) => [name, list[at]]));

function engineMessage([body, ...frames]: readonly Uint8Array[]): EngineMessage {
  const value = decodeMsgpack(body!) as readonly MsgpackValue[];
  const message = named(layout.outputs, jsonValue(value) as readonly unknown[]);
  // The id of a call may be an integer that JSON cannot hold.
  const answer = value[layout.outputs.indexOf("utility_output")];
  if (Array.isArray(answer)) (message.utility_output as unknown[])[0] = answer[0];
  const outputs = (message.outputs as readonly unknown[][]).map((one) => named(layout.output, one));
  return { ...message, outputs, frames };
}

/** A coordinator of several engines, with what it has received. */
class Coordinator {
  readonly messages: EngineMessage[] = [];
  readonly sockets: readonly ZmtpSocket[];
  readonly addresses: { readonly coordinator_input: string; readonly coordinator_output: string };

  constructor(timer: ConstructorParameters<typeof ZmtpSocket>[1]["timer"]) {
    // Engines subscribe to it, and a publisher sees a new subscription only as a topic of its peers.
    const input: ZmtpSocket = new ZmtpSocket("PUB", {
      timer,
      onJoin: () => setTimeout(() => input.publish([Buffer.from("READY")]), 5),
    });
    const output = new ZmtpSocket("PULL", { timer, onMessage: (frames) => this.messages.push(engineMessage(frames)) });
    this.sockets = [input, output];
    const [coordinator_input, coordinator_output] = this.sockets.map((socket) => socket.bind("tcp://127.0.0.1:0"));
    this.addresses = { coordinator_input: coordinator_input!, coordinator_output: coordinator_output! };
  }
}

export class SmallFront {
  /** Statuses of the handshake, in order. */
  readonly statuses: string[] = [];
  readonly registrations: Json[] = [];
  readonly messages: EngineMessage[] = [];
  /** Messages that are plain words, such as that of an engine that dies. */
  readonly words: string[] = [];
  /** Ids of requests that have ended. */
  readonly ended = new Set<string>();
  readonly #clock = new WallClock();
  readonly #timer = {
    nowUs: () => this.#clock.now(),
    after: (us: number, act: () => void) => this.#clock.at(this.#clock.now() + us, act),
  };
  readonly #input = new ZmtpSocket("ROUTER", {
    timer: this.#timer,
    onMessage: ([body]) => {
      this.registrations.push(jsonValue(decodeMsgpack(body!)) as Json);
    },
  });
  readonly #output = new ZmtpSocket("PULL", {
    timer: this.#timer,
    onMessage: (frames) => {
      const word = Buffer.from(frames[0]!).toString("latin1");
      if (/^[A-Z_]+$/.test(word)) {
        this.words.push(word);
        return;
      }
      const message = engineMessage(frames);
      this.messages.push(message);
      for (const { request_id, finish_reason } of message.outputs)
        if (finish_reason !== null) this.ended.add(request_id as string);
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
  /** Null: the front end has none. */
  readonly coordinator: Coordinator | null;
  /** Port of the handshake. */
  readonly rpcPort: number;

  /** `rpcPort` 0: any free port. `furtherOutputs`: addresses of processes with the indices 1, 2, …, for their answers. */
  constructor(rpcPort = 0, furtherOutputs: readonly string[] = [], isCoordinated = false) {
    this.coordinator = isCoordinated ? new Coordinator(this.#timer) : null;
    const [input, output] = [this.#input, this.#output].map((socket) => socket.bind("tcp://127.0.0.1:0"));
    this.#addresses = { inputs: [input!], outputs: [output!, ...furtherOutputs] };
    this.rpcPort = Number(this.#handshake.bind(`tcp://127.0.0.1:${rpcPort}`).split(":").at(-1));
  }

  /** Number of connections of engines. */
  get peers(): number {
    return this.#input.peers.length + this.#output.peers.length + this.#handshake.peers.length;
  }

  /** Sends frames to the input of an engine. Default: of the only one. */
  send(frames: readonly Uint8Array[], rank: number | null = null): void {
    const engine = this.#input.peers.find((peer) => rank === null || peer.readUInt16LE() === rank);
    this.#input.sendTo(engine!, frames);
  }

  /** Sends a request with a prompt of three tokens. `more`: fields by name. */
  add(
    id: string,
    params: Readonly<Record<string, MsgpackValue>> = {},
    prompt: readonly number[] | null = [1, 2, 3],
    more: Readonly<Record<string, MsgpackValue>> = {},
    rank: number | null = null,
  ): void {
    const fields: Readonly<Record<string, MsgpackValue>> = {
      ...{ request_id: id, prompt_token_ids: prompt, sampling_params: mapOf(params), arrival_time: 0 },
      ...{ client_index: 0, current_wave: 0, priority: 0, resumable: false, abort_immediately: false, ...more },
    };
    this.send([Buffer.from([0]), encoded(layout.request.map((name) => fields[name] ?? null))], rank);
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
    const sockets = [this.#handshake, this.#input, this.#output, ...(this.coordinator?.sockets ?? [])];
    await Promise.all(sockets.map((socket) => socket.close()));
    this.#clock.close();
  }

  #init(): Buffer {
    const addresses = mapOf({
      ...{ coordinator_input: null, coordinator_output: null },
      ...this.#addresses,
      ...this.coordinator?.addresses,
      frontend_stats_publish_address: "tcp://127.0.0.1:1",
    });
    return encoded(mapOf({ addresses, parallel_config: new Map() }));
  }
}

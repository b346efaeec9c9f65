/**
 * Joins a front end: the handshake, then one input and one output per process of the front end, and its coordinator if it has
 * several engines and one. A front end that ends and comes back is joined again. Source: `vllm/v1/engine/core.py`
 * (startup_handshake), vLLM 0.33.0.
 */
import { MsgpackError } from "../../wire/msgpack/reader.ts";
import { type ZmtpOptions, ZmtpSocket } from "../../wire/zmtp/socket.ts";
import type { JoinConfig } from "./join-config.ts";
import { statusMessage } from "./messages/handshake.ts";
import { type FrontMessage, frontMessage, initMessage } from "./messages/incoming.ts";
import type { MessageLayout } from "./messages/layouts.ts";
import { ENGINE_CORE_DEAD } from "./messages/outputs.ts";
import { MessageError } from "./messages/read.ts";
import { type HandshakeInit, RequestError } from "./messages/request.ts";

/** Longest time for which `close` waits until the last messages have been sent. */
const LINGER_MS = 4000;
/** The coordinator in the place of a process of the front end. */
export const COORDINATOR = -1;
/** The coordinator's first message, after it has seen the subscription. */
const READY = Buffer.from("READY");

/** Messages that may wait for a process of the front end that does not read. vLLM sets no limit. */
const WAITING_MOST = 100_000;

/** Time after which a front end that does not answer is named in the log. */
const SILENCE_US = 10_000_000;

/** The engine whose link this is: it makes the registration, and is told what arrives. */
export interface LinkOwner {
  readonly layout: MessageLayout;
  /** Returns the message that registers the engine. `statsAddress`: address that the front end has named for statistics. */
  registration(statsAddress: string | null): Uint8Array;
  /** Called when a front end has named its addresses, before it sends anything else. */
  begins(): void;
  received(message: FrontMessage): void;
  /** Called with a request that has a wrong field. It must be answered, because its client waits. */
  refused(request: RequestError): void;
  /** Called when a connection to the front end has ended: nobody waits any longer for the answers of running requests. */
  lost(): void;
  readonly log: (line: string) => void;
}

interface Sockets {
  readonly inputs: readonly ZmtpSocket[];
  readonly outputs: readonly ZmtpSocket[];
  readonly coordinator: { readonly input: ZmtpSocket; readonly output: ZmtpSocket } | null;
}
const NO_SOCKETS: Sockets = { inputs: [], outputs: [], coordinator: null };
const allOf = ({ inputs, outputs, coordinator }: Sockets): readonly ZmtpSocket[] => [
  ...inputs,
  ...outputs,
  ...(coordinator === null ? [] : [coordinator.input, coordinator.output]),
];

export class FrontLink {
  readonly #handshake: ZmtpSocket;
  #sockets: Sockets = NO_SOCKETS;
  /** Numbers of messages that were dropped since the output last had room, by the index of the output. */
  readonly #dropped = new Map<number, number>();
  #isReady = false;
  /** False until the coordinator has seen the subscription. True if there is none. */
  #isCoordinated = true;

  /** Cancels the wait for the front end's first answer. */
  #answered = () => {};

  constructor(
    config: JoinConfig,
    private readonly timer: ZmtpOptions["timer"],
    private readonly owner: LinkOwner,
  ) {
    const { address, rpcPort, rank } = config;
    const identity = Buffer.alloc(2);
    identity.writeUInt16LE(rank);
    let said = "";
    this.#handshake = new ZmtpSocket("DEALER", {
      ...this.#options(identity),
      log(line) {
        // Said once, because the engine tries again for as long as it runs.
        if (line !== said) owner.log(`${address}:${rpcPort} is no front end of vLLM, trying again: ${line}`);
        said = line;
      },
      onJoin: () => {
        owner.log(`the front end at ${address}:${rpcPort} is there; joining as rank ${rank}`);
        this.#handshake.send([statusMessage("HELLO")]);
        this.#answered = timer.after(SILENCE_US, () =>
          owner.log(`the front end at ${address}:${rpcPort} does not answer. Has another engine the rank ${rank}?`),
        );
      },
      onLeave: () => this.#answered(),
      onMessage: ([frame]) => {
        this.#answered();
        this.#guarded(() => this.#begin(initMessage(frame!), identity));
      },
    });
    this.#handshake.connect(
      `tcp://${config.address.includes(":") ? `[${config.address}]` : config.address}:${config.rpcPort}`,
    );
  }

  /** True from the message READY to the front end until a connection to it ends. */
  get isReady(): boolean {
    return this.#isReady;
  }

  get hasCoordinator(): boolean {
    return this.#sockets.coordinator !== null;
  }

  /**
   * Sends a message to a process of the front end, or to the coordinator. Drops it if the process is not connected, or if too many
   * messages wait for it. The first message that is dropped is logged, and their number when the process reads again.
   */
  send(client: number, frames: readonly Uint8Array[]): void {
    const { outputs, coordinator } = this.#sockets;
    const output = client === COORDINATOR ? coordinator?.output : outputs[client];
    if (output === undefined || output.send(frames)) return;
    const dropped = this.#dropped.get(client) ?? 0;
    if (dropped === 0) this.owner.log(`process ${client} of the front end does not read: messages to it are dropped`);
    this.#dropped.set(client, dropped + 1);
  }

  /** Leaves the front end for good. `isDead`: says before that the engine has failed. Without that, nothing more is sent. */
  leave(isDead: boolean): void {
    this.#isReady = false;
    this.#answered();
    if (isDead) for (const output of this.#sockets.outputs) output.send([ENGINE_CORE_DEAD]);
    for (const socket of [this.#handshake, ...allOf(this.#sockets)]) void socket.close(isDead ? LINGER_MS : 0);
    this.#sockets = NO_SOCKETS;
    this.owner.lost();
  }

  /** Sends what waits, and ends the connections. */
  async close(): Promise<void> {
    this.#answered();
    await Promise.all([this.#handshake, ...allOf(this.#sockets)].map((socket) => socket.close(LINGER_MS)));
  }

  #options(identity: Buffer | null): ZmtpOptions {
    const { timer, owner } = this;
    return { timer, log: owner.log, highWaterMark: WAITING_MOST, ...(identity ? { identity } : {}) };
  }

  /** Connects to the addresses of the front end. Says that the engine is ready when all connections are open. */
  #begin({ addresses }: HandshakeInit, identity: Buffer): void {
    for (const socket of allOf(this.#sockets)) void socket.close();
    this.#isReady = false;
    this.#dropped.clear();
    this.owner.begins();
    const registration = this.owner.registration(addresses.frontend_stats_publish_address);
    const inputs = addresses.inputs.map(() => this.#input(identity, registration));
    const outputs = addresses.outputs.map((_, client) => {
      const onDrain = () => this.#drained(client);
      return new ZmtpSocket("PUSH", { ...this.#options(null), onJoin: this.#joined, onDrain });
    });
    const coordinator = this.#coordinator(addresses);
    this.#sockets = { inputs, outputs, coordinator };
    for (const [at, endpoint] of addresses.inputs.entries()) inputs[at]!.connect(endpoint);
    for (const [at, endpoint] of addresses.outputs.entries()) outputs[at]!.connect(endpoint);
  }

  #input(identity: Buffer, registration: Uint8Array): ZmtpSocket {
    const input: ZmtpSocket = new ZmtpSocket("DEALER", {
      ...this.#options(identity),
      onJoin: () => {
        // The front end knows the connection by its first message.
        input.send([registration]);
        this.#joined();
      },
      onLeave: () => {
        // A socket of an earlier front end has nothing to do with this one.
        if (!this.#sockets.inputs.includes(input)) return;
        this.#isReady = false;
        this.owner.lost();
      },
      onMessage: (frames) => this.#guarded(() => this.#received(frontMessage(frames, this.owner.layout))),
    });
    return input;
  }

  /** Connects to the coordinator, which balances the load of several engines. Null: the front end has none. */
  #coordinator({ coordinator_input, coordinator_output }: HandshakeInit["addresses"]): Sockets["coordinator"] {
    this.#isCoordinated = coordinator_input === null || coordinator_output === null;
    if (coordinator_input === null || coordinator_output === null) return null;
    const input = new ZmtpSocket("XSUB", {
      ...this.#options(null),
      onMessage: ([first]) => {
        if (!READY.equals(first!)) return;
        this.#isCoordinated = true;
        this.#joined();
      },
    });
    const output = new ZmtpSocket("PUSH", { ...this.#options(null), onJoin: this.#joined });
    input.subscribe(Buffer.alloc(0));
    input.connect(coordinator_input);
    output.connect(coordinator_output);
    return { input, output };
  }

  readonly #joined = (): void => {
    const sockets = allOf(this.#sockets);
    if (this.#isReady || !this.#isCoordinated || !sockets.every(({ peers }) => peers.length > 0)) return;
    this.#isReady = true;
    this.#handshake.send([statusMessage("READY")]);
    this.owner.log("the front end has the engine");
  };

  /** Passes a message on. One whose answer has no receiver is dropped. */
  #received(message: FrontMessage): void {
    if (message.type === "add") this.#checkClient(message.request.client_index);
    if (message.type === "utility") this.#checkClient(message.call.client_index);
    this.owner.received(message);
  }

  #checkClient(client: number): void {
    const count = this.#sockets.outputs.length;
    if (client < 0 || client >= count)
      throw new MessageError(`client_index: the front end has ${count} processes, and none has the index ${client}`);
  }

  #drained(client: number): void {
    const dropped = this.#dropped.get(client);
    if (!this.#dropped.delete(client)) return;
    this.owner.log(`process ${client} of the front end reads again; ${dropped} messages to it were dropped`);
  }

  /** Calls `act`. If it cannot read the message, a request is refused, and another message is logged and dropped. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (error instanceof RequestError && error.client_index in this.#sockets.outputs) {
        this.owner.refused(error);
        return;
      }
      if (!(error instanceof MsgpackError || error instanceof MessageError || error instanceof RangeError)) throw error;
      this.owner.log(`a message of the front end is dropped: ${error.message}`);
    }
  }
}

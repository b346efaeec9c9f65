/**
 * Joins a front end: the handshake, then one input and one output per process of the front end. A front end that ends and comes
 * back is joined again. Source: `vllm/v1/engine/core.py` (startup_handshake), vLLM 0.33.0.
 */
import { MsgpackError } from "../../wire/msgpack/reader.ts";
import { type ZmtpOptions, ZmtpSocket } from "../../wire/zmtp/socket.ts";
import type { JoinConfig } from "./join-config.ts";
import { statusMessage } from "./messages/handshake.ts";
import { type FrontMessage, frontMessage, initMessage } from "./messages/incoming.ts";
import type { MessageLayout } from "./messages/layouts.ts";
import { ENGINE_CORE_DEAD } from "./messages/outputs.ts";
import { MessageError } from "./messages/read.ts";
import type { HandshakeInit } from "./messages/request.ts";

/** Longest time that closing waits until the last messages have been sent. */
const LINGER_MS = 4000;
/** Messages that may wait for a front end that does not read. vLLM sets no limit. */
const WAITING_MOST = 100_000;

/** The engine, as its link uses it. */
export interface LinkOwner {
  readonly layout: MessageLayout;
  /** Returns the message that registers the engine. `statsAddress`: address that the front end has named for statistics. */
  registration(statsAddress: string | null): Uint8Array;
  received(message: FrontMessage): void;
  /** Called when a connection has ended, so that nobody waits for the answers of running requests. */
  lost(): void;
  readonly log: (line: string) => void;
}

interface Sockets {
  readonly inputs: readonly ZmtpSocket[];
  readonly outputs: readonly ZmtpSocket[];
}

export class FrontLink {
  readonly #handshake: ZmtpSocket;
  #sockets: Sockets = { inputs: [], outputs: [] };
  #isReady = false;

  constructor(
    config: JoinConfig,
    private readonly timer: ZmtpOptions["timer"],
    private readonly owner: LinkOwner,
  ) {
    const identity = Buffer.alloc(2);
    identity.writeUInt16LE(config.rank);
    this.#handshake = new ZmtpSocket("DEALER", {
      ...this.#options(identity),
      onJoin: () => {
        owner.log(`the front end at ${config.address}:${config.rpcPort} is there; joining as rank ${config.rank}`);
        this.#handshake.send([statusMessage("HELLO")]);
      },
      onMessage: ([frame]) => this.#guarded(() => this.#begin(initMessage(frame!), identity)),
    });
    this.#handshake.connect(
      `tcp://${config.address.includes(":") ? `[${config.address}]` : config.address}:${config.rpcPort}`,
    );
  }

  /** True while the front end knows that the engine is ready. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Sends a message to a process of the front end. Returns false if it is not connected, or does not read. */
  send(client: number, frames: readonly Uint8Array[]): boolean {
    return this.#sockets.outputs[client]?.send(frames) ?? false;
  }

  /** Leaves the front end. `isDead`: tells it that the engine has failed. */
  async close(isDead = false): Promise<void> {
    const { inputs, outputs } = this.#sockets;
    if (isDead) for (const output of outputs) output.send([ENGINE_CORE_DEAD]);
    await Promise.all([this.#handshake, ...inputs, ...outputs].map((socket) => socket.close(LINGER_MS)));
  }

  #options(identity: Buffer | null): ZmtpOptions {
    const { timer, owner } = this;
    return { timer, log: owner.log, highWaterMark: WAITING_MOST, ...(identity ? { identity } : {}) };
  }

  /** Connects to the addresses of the front end. Says that the engine is ready when all connections are open. */
  #begin({ addresses }: HandshakeInit, identity: Buffer): void {
    for (const socket of [...this.#sockets.inputs, ...this.#sockets.outputs]) void socket.close();
    this.#isReady = false;
    const registration = this.owner.registration(addresses.frontend_stats_publish_address);
    const inputs = addresses.inputs.map(() => this.#input(identity, registration));
    const outputs = addresses.outputs.map(
      () => new ZmtpSocket("PUSH", { ...this.#options(null), onJoin: this.#joined }),
    );
    this.#sockets = { inputs, outputs };
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
        this.#isReady = false;
        this.owner.lost();
      },
      onMessage: (frames) => this.#guarded(() => this.owner.received(frontMessage(frames, this.owner.layout))),
    });
    return input;
  }

  readonly #joined = (): void => {
    const { inputs, outputs } = this.#sockets;
    if (this.#isReady || ![...inputs, ...outputs].every(({ peers }) => peers.length > 0)) return;
    this.#isReady = true;
    this.#handshake.send([statusMessage("READY")]);
    this.owner.log("the front end has the engine");
  };

  /** Calls `act`. A message that cannot be read is logged and dropped. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (!(error instanceof MsgpackError || error instanceof MessageError || error instanceof RangeError)) throw error;
      this.owner.log(`a message of the front end is dropped: ${error.message}`);
    }
  }
}

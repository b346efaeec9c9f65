/** Sends the answer of a call that a fault plan disturbs. Works like `wire/http1/faulty.ts`, with messages as events. */
import { MessagePipeline } from "../../faults/messages.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { Timer } from "../http/deadlines.ts";
import type { DisturbedAnswer, FaultOrder, HeldBytes } from "../http/sink.ts";
import type { DrainListener } from "../http1/stream.ts";
import { WirePlayer } from "../http1/wire-player.ts";
import type { ConnectionHandle } from "../http2/connection-handle.ts";
import { encodeFields, type HeaderField } from "../http2/hpack.ts";
import type { Http2Stream } from "../http2/stream.ts";
import { GRPC_CODES, GRPC_OK, type GrpcStatus, headOf, onlyTrailers, trailersOf } from "./status.ts";

const FAULT_FIELD = "x-understudy-fault";
/** Invalid trailers that a plan can order: no status, or one that is not a number. */
const INVALID_TRAILERS: Readonly<Record<string, Buffer>> = {
  lost: Buffer.alloc(0),
  bare: encodeFields([["x-understudy-trailer", "bare"]]),
  odd: encodeFields([["grpc-status", "good"]]),
};

/** The answer of a call that a fault plan disturbs. */
export class FaultyMessages {
  readonly #pipeline: MessagePipeline;
  readonly #player: WirePlayer;
  readonly #stream: Http2Stream;
  readonly #connection: ConnectionHandle;
  #block: Buffer = Buffer.alloc(0);
  /** Bytes of the head that the player has released. */
  #due = 0;
  /** True once the head has left. */
  #begun = false;
  #complete = false;
  #status: GrpcStatus = GRPC_OK;
  #then: DrainListener | null = null;

  /** `lost`: called if nothing more can be sent. */
  constructor(
    private readonly order: FaultOrder,
    timer: Required<Timer>,
    at: { stream: Http2Stream; connection: ConnectionHandle; held: HeldBytes },
    private readonly lost: () => void,
  ) {
    this.#pipeline = new MessagePipeline(order.plan, order.key);
    this.#stream = at.stream;
    this.#connection = at.connection;
    this.#player = new WirePlayer(this.#output(), timer, {
      ended: (how) => this.#ended(how),
      hasRoom() {},
      waits: (bytes) => at.held.held(bytes),
      sent: order.sent && ((bytes) => order.sent!(bytes)),
      keeps: !order.isBrief,
    });
  }

  /** Bytes that wait in the player. */
  get queued(): number {
    return this.#player.queued;
  }

  /** Starts the answer. `fields`: those of the head besides the ones that every head has. */
  begin(fields: readonly HeaderField[]): void {
    this.#block = headOf([...fields, [FAULT_FIELD, this.#pipeline.line]]);
    this.#player.play(this.#pipeline.begin(this.#block));
    if (this.#pipeline.stopped) this.#stop();
  }

  /** Takes a message with its five-byte head. The caller must not use the bytes afterwards. */
  message(bytes: Buffer): void {
    if (this.#complete || this.#player.over) return;
    this.#player.play(this.#pipeline.message(bytes));
    if (this.#pipeline.stopped) this.#stop();
  }

  end(status: GrpcStatus): void {
    if (this.#complete) return;
    this.#complete = true;
    this.#status = status;
    this.#player.play(this.#pipeline.end());
  }

  drained(): void {
    const then = this.#then;
    this.#then = null;
    then?.drained();
  }

  /** Stops, because the client left or the deadline has passed. */
  gone(): void {
    this.#complete = true;
    this.#player.stop("gone");
  }

  #stop(): void {
    this.#complete = true;
    this.lost();
    this.#player.play(this.#pipeline.end());
  }

  #ended(end: DisturbedAnswer["end"]): void {
    const { line } = this.#pipeline;
    if (!this.#complete) this.lost();
    this.order.told({ line, end, ...this.#player.record, account: this.#pipeline.account() });
  }

  #output() {
    const stream = this.#stream;
    return {
      send: (bytes: Uint8Array, length: number, then: DrainListener | null) => {
        const before = stream.queued;
        stream.write(bytes as Buffer, length);
        const left = stream.queued - before;
        if (left > 0) this.#then = then;
        return left;
      },
      leave: (stays: boolean, after: ConnectionEffect) => {
        if (after.refused > 0) this.#connection.refuseNext(after.refused);
        if (stays) this.#conclude();
        else this.#connection.end();
      },
      cut: () => this.#connection.cut(),
      frames: {
        // A part of a head cannot be sent, so the head leaves with its last part.
        head: (bytes: Uint8Array) => {
          this.#due += bytes.length;
          if (this.#due < this.#block.length) return;
          this.#begun = true;
          stream.head(this.#block, false);
        },
        goAway: (code: number, unserved: boolean) => {
          if (unserved) this.#connection.disown(Math.max(0, stream.id - 2), code);
          else this.#connection.retire(code);
        },
        reset: (code: number) => stream.reset(code),
      },
    };
  }

  #conclude(): void {
    const { status } = this.#pipeline;
    const sent: GrpcStatus =
      status === null ? this.#status : { code: GRPC_CODES[status]!, message: "a fault ended the call" };
    if (!this.#begun) this.#stream.head(onlyTrailers(sent, [[FAULT_FIELD, this.#pipeline.line]]), true);
    else this.#stream.end(INVALID_TRAILERS[this.#pipeline.trailers] ?? trailersOf(sent));
  }
}

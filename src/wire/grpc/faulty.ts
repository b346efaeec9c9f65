/** How does a call's answer leave that a plan of faults disturbs? As `wire/http1/faulty.ts` does for events. */
import { MessagePipeline } from "../../faults/messages.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { Timer } from "../http/deadlines.ts";
import type { DisturbedAnswer, FaultOrder, HeldBytes } from "../http/sink.ts";
import type { Drained } from "../http1/stream.ts";
import { WirePlayer } from "../http1/wire-player.ts";
import { encodeFields, type HeaderField } from "../http2/hpack.ts";
import type { Http2Line } from "../http2/line.ts";
import type { Http2Stream } from "../http2/stream.ts";
import { GRPC_CODES, GRPC_OK, type GrpcStatus, headOf, onlyTrailers, trailersOf } from "./status.ts";

const FAULT_FIELD = "x-understudy-fault";
/** Trailers that say too little, or too much. */
const ODD: Readonly<Record<string, Buffer>> = {
  lost: Buffer.alloc(0),
  bare: encodeFields([["x-understudy-trailer", "bare"]]),
  odd: encodeFields([["grpc-status", "good"]]),
};

export class FaultyMessages {
  readonly #pipeline: MessagePipeline;
  readonly #player: WirePlayer;
  readonly #order: FaultOrder;
  readonly #stream: Http2Stream;
  readonly #line: Http2Line;
  readonly #lost: () => void;
  #block: Buffer = Buffer.alloc(0);
  /** Bytes of it that are due. */
  #due = 0;
  /** The head has left. */
  #begun = false;
  #complete = false;
  #status: GrpcStatus = GRPC_OK;
  #then: Drained | null = null;

  /** `lost`: nobody is there for what would follow. */
  constructor(
    order: FaultOrder,
    timer: Required<Timer>,
    at: { stream: Http2Stream; line: Http2Line; held: HeldBytes },
    lost: () => void,
  ) {
    this.#pipeline = new MessagePipeline(order.plan, order.key);
    this.#order = order;
    this.#stream = at.stream;
    this.#line = at.line;
    this.#lost = lost;
    this.#player = new WirePlayer(this.#output(), timer, {
      ended: (how) => this.#ended(how),
      relieved() {},
      waits: (bytes) => at.held.held(bytes),
      sent: order.sent && ((bytes) => order.sent!(bytes)),
      keeps: !order.isBrief,
    });
  }

  /** Bytes that wait here. */
  get queued(): number {
    return this.#player.queued;
  }

  /** `fields`: what stands in the head beside what each has. */
  begin(fields: readonly HeaderField[]): void {
    this.#block = headOf([...fields, [FAULT_FIELD, this.#pipeline.line]]);
    this.#player.play(this.#pipeline.begin(this.#block));
    if (this.#pipeline.stopped) this.#stop();
  }

  /** The message with what stands before it, which is this one's to change. */
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

  /** The client is gone, or its time is over. */
  gone(): void {
    this.#complete = true;
    this.#player.stop("gone");
  }

  #stop(): void {
    this.#complete = true;
    this.#lost();
    this.#player.play(this.#pipeline.end());
  }

  #ended(end: DisturbedAnswer["end"]): void {
    const { line } = this.#pipeline;
    if (!this.#complete) this.#lost();
    this.#order.told({ line, end, ...this.#player.record, account: this.#pipeline.account() });
  }

  #output() {
    const stream = this.#stream;
    return {
      send: (bytes: Uint8Array, length: number, then: Drained | null) => {
        const before = stream.queued;
        stream.write(bytes as Buffer, length);
        const left = stream.queued - before;
        if (left > 0) this.#then = then;
        return left;
      },
      leave: (stays: boolean, after: ConnectionEffect) => {
        if (after.refused > 0) this.#line.refuseNext(after.refused);
        if (stays) this.#conclude();
        else this.#line.end();
      },
      cut: () => this.#line.cut(),
      frames: {
        // A part of a head is none: it leaves with its last one.
        head: (bytes: Uint8Array) => {
          this.#due += bytes.length;
          if (this.#due < this.#block.length) return;
          this.#begun = true;
          stream.head(this.#block, false);
        },
        goAway: (code: number, unserved: boolean) => {
          if (unserved) this.#line.disown(Math.max(0, stream.id - 2), code);
          else this.#line.retire(code);
        },
        reset: (code: number) => stream.reset(code),
      },
    };
  }

  #conclude(): void {
    const { status } = this.#pipeline;
    const said: GrpcStatus =
      status === null ? this.#status : { code: GRPC_CODES[status]!, message: "a fault ended the call" };
    if (!this.#begun) this.#stream.head(onlyTrailers(said, [[FAULT_FIELD, this.#pipeline.line]]), true);
    else this.#stream.end(ODD[this.#pipeline.trailers] ?? trailersOf(said));
  }
}

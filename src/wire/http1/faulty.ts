/**
 * Sends an answer that a fault plan disturbs. Its events go through the fault pipeline, and a player carries out the resulting
 * operations.
 */
import { FaultPipeline } from "../../faults/pipeline.ts";
import { headIn } from "../../faults/stages/heads.ts";
import type { Timer } from "../http/deadlines.ts";
import type { DisturbedAnswer, EventSink, FaultWitness, HeldBytes, SinkEvents } from "../http/sink.ts";
import { type DrainListener, putSize, roomFor } from "./stream.ts";
import { type FaultyOutput, WirePlayer } from "./wire-player.ts";

export { FaultPipeline };

const NO_OWNER: SinkEvents = { onDrain() {}, onGone() {} };
const CR = 13;
const LF = 10;
/** Approximate bytes of garbage per event in the pipeline, in addition to the bytes sent. */
const EVENT_BYTES = 3072;
/** First bytes of events: of `data` and of `event`. */
const STARTS = [0x64, 0x65];

/** Reports whether the three pieces are an event with a token's text in the middle, and not arbitrary bytes. */
function isPiece(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
  const { length } = after;
  return STARTS.includes(before[0]!) && piece.length > 0 && after[length - 1] === LF && after[length - 2] === LF;
}

export class FaultyStream implements EventSink, DrainListener {
  readonly #pipeline: FaultPipeline;
  readonly #player: WirePlayer;
  readonly #witness: FaultWitness;
  /** True if each write needs chunk framing (HTTP/1). */
  readonly #chunks: boolean;
  #owner = NO_OWNER;
  #waiting: HeldBytes | null = null;
  #early: string[] = [];
  #endsEarly: "end" | "reset" | null = null;
  #begun = false;
  /** Number of events that went through the pipeline. */
  #written = 0;
  /** True if the owner writes no more. */
  #complete = false;

  constructor(pipeline: FaultPipeline, output: FaultyOutput, timer: Required<Timer>, witness: FaultWitness) {
    this.#pipeline = pipeline;
    this.#witness = witness;
    this.#chunks = output.frames === undefined;
    this.#player = new WirePlayer(output, timer, {
      ended: (how) => this.#ended(how),
      hasRoom: () => {
        if (!this.#complete) this.#owner.onDrain();
      },
      waits: (bytes) => {
        if (bytes !== 0) this.#waiting?.held(bytes);
      },
      sent: witness.sent && ((bytes) => witness.sent!(bytes)),
      keeps: !witness.isBrief,
    });
  }

  /** Prepares for a stream as the answer. */
  open(owner: SinkEvents, waiting: HeldBytes | null): this {
    this.#owner = owner;
    this.#waiting = waiting;
    return this;
  }

  get full(): boolean {
    return this.#begun ? this.#player.full : this.#early.length > 0;
  }

  write(event: string): boolean {
    if (!this.#begun) this.#early.push(event);
    else if (!this.#complete && !this.#player.over) {
      this.#written++;
      this.#player.play(this.#pipeline.write(event));
      if (this.#pipeline.stopped !== null && !this.#complete) this.#stop();
    }
    return !this.full;
  }

  /** Ends the stream after an event that says that nothing follows. */
  #stop(): void {
    this.#complete = true;
    if (this.#pipeline.stopped === "error" && this.#owner.onFailed) this.#owner.onFailed();
    else this.#owner.onGone();
    this.#player.play(this.#pipeline.end());
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    const length = before.length + piece.length + after.length;
    const into = roomFor(length);
    const plays = this.#begun && !this.#complete && !this.#player.over;
    const passes = plays && isPiece(before, piece, after) && this.#pipeline.passes(length);
    let at = passes && this.#chunks ? putSize(into, length) : 0;
    into.set(before, at);
    into.set(piece, at + before.length);
    into.set(after, at + before.length + piece.length);
    if (!passes) return this.write(into.toString("utf8", 0, length));
    at += length;
    if (this.#chunks) {
      into[at++] = CR;
      into[at++] = LF;
    }
    this.#player.pass(into, at);
    return !this.full;
  }

  end(): void {
    if (!this.#begun) this.#endsEarly ??= "end";
    else if (!this.#complete) {
      this.#complete = true;
      this.#player.play(this.#pipeline.end());
    }
  }

  reset(): void {
    if (!this.#begun) this.#endsEarly ??= "reset";
    else if (!this.#complete) {
      this.#complete = true;
      this.#player.play([{ kind: "end", how: "fin", after: { next: null, refused: 0 } }]);
    }
  }

  /** Starts the stream with its head. Called by the exchange, as are all methods below. */
  begin(head: string): void {
    this.#begun = true;
    this.#player.play(this.#pipeline.begin(headIn(head)));
    const waited = this.#early;
    this.#early = [];
    for (const event of waited) this.write(event);
    if (this.#endsEarly === "end") this.end();
    else if (this.#endsEarly === "reset") this.reset();
    else if (waited.length > 0 && !this.#player.full && !this.#player.over) this.#owner.onDrain();
  }

  /** Does nothing, because no lane leads to a disturbed stream. */
  shut(): void {}

  /** Sends an answer in one piece. */
  answer(head: string, body: string | Uint8Array | null): void {
    this.#begun = true;
    this.#complete = true;
    this.#player.play(
      this.#pipeline.whole(headIn(head), typeof body === "string" ? Buffer.from(body) : (body ?? new Uint8Array())),
    );
  }

  /** Ends the disturbance. The exchange then sends the answer unchanged. */
  spare(): void {
    this.#complete = true;
    this.#player.stop("done");
  }

  drained(): void {
    this.#player.drained();
  }

  /** Stops, because the connection is closed. */
  gone(): void {
    this.#player.stop("gone");
  }

  #ended(end: DisturbedAnswer["end"]): void {
    if (!this.#complete) this.#owner.onGone();
    const { line } = this.#pipeline;
    this.#witness.consumed?.(this.#written * EVENT_BYTES + this.#player.played);
    this.#witness.told({ line, end, ...this.#player.record, account: this.#pipeline.account() });
  }
}

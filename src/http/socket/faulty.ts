/** How does an answer leave that a plan disturbs? The pipeline says what is done, this does it: one write per segment, waits, the end. */
import { FaultPipeline } from "../../faults/pipeline.ts";
import { headIn } from "../../faults/stages/heads.ts";
import type { Aftermath, WireOperation } from "../../faults/types.ts";
import type { Timer } from "../deadlines.ts";
import type { DisturbedAnswer, EventSink, FaultWitness, HeldBytes, SinkEvents } from "../sink.ts";
import type { Drained } from "./stream.ts";

export { FaultPipeline };

/** Between two segments, so that no layer puts them together. */
const GAP_US = 200;
/** Bytes that wait here, beyond which the answer's owner is asked to wait. */
const WAITING_MOST = 4 * 2 ** 20;
/** Operations that are kept of one answer. */
const KEPT_MOST = 1000;
const NOBODY: SinkEvents = { onDrain() {}, onGone() {} };

/** Where the bytes go, and how the connection ends. */
export interface FaultyOutput {
  /** As `Output`'s. */
  send(bytes: Uint8Array, length: number, then: Drained | null): number;
  /** The answer is complete; `stays`: the connection may be used again. */
  leave(stays: boolean, after: Aftermath): void;
  /** Resets the connection. */
  cut(): void;
  /** Where HTTP/2 is spoken. */
  readonly frames?: {
    /** Bytes of a head, or of a part of one. */
    head(bytes: Uint8Array): void;
    goAway(code: number, unserved: boolean): void;
    /** Resets the answer's stream. */
    reset(code: number): void;
  };
}

export class FaultyStream implements EventSink, Drained {
  readonly #pipeline: FaultPipeline;
  readonly #output: FaultyOutput;
  readonly #timer: Required<Timer>;
  readonly #witness: FaultWitness;
  readonly #beganUs: number;
  #owner = NOBODY;
  #waiting: HeldBytes | null = null;
  #early: string[] = [];
  #endsEarly: "end" | "reset" | null = null;
  #begun = false;
  /** The owner writes no more. */
  #complete = false;
  /** Everything is done, or nobody is there for it. */
  #over = false;
  readonly #queue: WireOperation[] = [];
  /** Bytes in the queue, and those that the socket has not taken. */
  #queued = 0;
  #left = 0;
  #full = false;
  /** Nothing is done before, and nothing is sent. */
  #notBeforeUs = 0;
  #noBytesBeforeUs = 0;
  #takeBack: (() => void) | null = null;
  #offset = 0;
  readonly #done: DisturbedAnswer["operations"][number][] = [];
  #unkept = 0;

  constructor(pipeline: FaultPipeline, output: FaultyOutput, timer: Required<Timer>, witness: FaultWitness) {
    this.#pipeline = pipeline;
    this.#output = output;
    this.#timer = timer;
    this.#witness = witness;
    this.#beganUs = timer.nowUs();
  }

  /** The request's answer is a stream. */
  open(owner: SinkEvents, waiting: HeldBytes | null): this {
    this.#owner = owner;
    this.#waiting = waiting;
    return this;
  }

  get full(): boolean {
    return this.#full;
  }

  write(event: string): boolean {
    if (!this.#begun) {
      this.#early.push(event);
      this.#full = true;
    } else if (!this.#complete && !this.#over) {
      this.#do(this.#pipeline.write(event));
      if (this.#pipeline.stopped !== null && !this.#complete) this.#stop();
    }
    return !this.#full;
  }

  /** The events said that nothing follows. */
  #stop(): void {
    this.#complete = true;
    if (this.#pipeline.stopped === "error" && this.#owner.onFailed) this.#owner.onFailed();
    else this.#owner.onGone();
    this.#do(this.#pipeline.end());
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    return this.write(Buffer.concat([before, piece, after]).toString());
  }

  end(): void {
    if (!this.#begun) this.#endsEarly ??= "end";
    else if (!this.#complete) {
      this.#complete = true;
      this.#do(this.#pipeline.end());
    }
  }

  reset(): void {
    if (!this.#begun) this.#endsEarly ??= "reset";
    else if (!this.#complete) {
      this.#complete = true;
      this.#do([{ kind: "end", how: "fin", after: { next: null, refused: 0 } }]);
    }
  }

  /** For the exchange, as all below: the stream's head. */
  begin(head: string): void {
    this.#begun = true;
    this.#full = false;
    this.#do(this.#pipeline.begin(headIn(head)));
    const waited = this.#early;
    this.#early = [];
    for (const event of waited) this.write(event);
    if (this.#endsEarly === "end") this.end();
    else if (this.#endsEarly === "reset") this.reset();
    else if (waited.length > 0 && !this.#full && !this.#over) this.#owner.onDrain();
  }

  /** Nothing of it waits in a lane. */
  shut(): void {}

  /** An answer in one piece. */
  answer(head: string, body: string | Uint8Array | null): void {
    this.#begun = true;
    this.#complete = true;
    this.#do(
      this.#pipeline.whole(headIn(head), typeof body === "string" ? Buffer.from(body) : (body ?? new Uint8Array())),
    );
  }

  /** The answer leaves as it is. */
  spare(): void {
    this.#complete = true;
    this.#end("done");
  }

  drained(): void {
    this.#waits(-this.#left);
    this.#left = 0;
    this.#run();
    this.#relieve();
  }

  /** The client left, or was left. */
  gone(): void {
    this.#end("gone");
  }

  #do(operations: readonly WireOperation[]): void {
    for (const one of operations) {
      this.#queue.push(one);
      if (one.kind === "bytes") this.#count(one.bytes.length);
    }
    if (this.#takeBack === null) this.#run();
    this.#full = this.#isFull;
  }

  get #isFull(): boolean {
    return this.#left > 0 || this.#queued > WAITING_MOST;
  }

  /** Whoever was asked to wait goes on, if there is room again. */
  #relieve(): void {
    if (!this.#full || this.#over || this.#isFull) return;
    this.#full = false;
    if (!this.#complete) this.#owner.onDrain();
  }

  #run(): void {
    while (!this.#over && this.#left === 0 && this.#queue.length > 0) {
      const nowUs = this.#timer.nowUs();
      const first = this.#queue[0]!;
      if (first.kind === "wait") {
        this.#queue.shift();
        this.#notBeforeUs = Math.max(nowUs, this.#notBeforeUs) + first.us;
        this.#keep(nowUs, "wait", first.us, 0);
        continue;
      }
      if (first.kind === "goaway") {
        this.#queue.shift();
        this.#keep(nowUs, "goaway", first.code, 0);
        this.#output.frames?.goAway(first.code, first.unserved);
        continue;
      }
      const dueUs = first.kind === "end" ? this.#notBeforeUs : Math.max(this.#notBeforeUs, this.#noBytesBeforeUs);
      if (nowUs < dueUs) {
        this.#wake(dueUs - nowUs);
        return;
      }
      if (first.kind === "bytes") this.#next(first, nowUs);
      else this.#finish(first, nowUs);
    }
  }

  /** Sends the segment, or as much of it as its pace lets go. */
  #next({ bytes, event, pace }: Extract<WireOperation, { kind: "bytes" }>, nowUs: number): void {
    const length = Math.min(bytes.length, pace?.bytes ?? bytes.length);
    if (length === bytes.length) this.#queue.shift();
    else this.#queue[0] = { kind: "bytes", bytes: bytes.subarray(length), event, pace };
    this.#send(bytes.subarray(0, length), event, nowUs);
    this.#noBytesBeforeUs = nowUs + Math.max(GAP_US, pace?.gapUs ?? 0);
  }

  #send(bytes: Uint8Array, event: number, nowUs: number): void {
    const { frames } = this.#output;
    this.#count(-bytes.length);
    if (event < 0 && frames) frames.head(bytes);
    else this.#left = this.#output.send(bytes, bytes.length, this);
    this.#keep(nowUs, "bytes", bytes.length, bytes.length - this.#left);
    this.#offset += bytes.length;
    this.#witness.sent?.(bytes);
    if (this.#left === 0) return;
    this.#waits(this.#left);
    this.#full = true;
  }

  #finish({ how, code, after }: Extract<WireOperation, { kind: "end" }>, nowUs: number): void {
    this.#keep(nowUs, how, 0, 0);
    this.#end(how);
    if (how === "rst") this.#output.cut();
    else if (how === "reset") this.#output.frames?.reset(code!);
    else this.#output.leave(how === "done", after);
  }

  #end(how: DisturbedAnswer["end"]): void {
    if (this.#over) return;
    this.#over = true;
    this.#takeBack?.();
    this.#count(-this.#queued);
    this.#waits(-this.#left);
    this.#left = 0;
    this.#queue.length = 0;
    if (!this.#complete) this.#owner.onGone();
    const { line } = this.#pipeline;
    const account = this.#pipeline.account();
    this.#witness.told({
      line,
      end: how,
      beganUs: this.#beganUs,
      operations: this.#done,
      unkept: this.#unkept,
      account,
    });
  }

  #wake(us: number): void {
    if (this.#takeBack !== null) return;
    this.#takeBack = this.#timer.after(us, () => {
      this.#takeBack = null;
      this.#run();
      this.#relieve();
    });
  }

  #count(bytes: number): void {
    this.#queued += bytes;
    this.#waits(bytes);
  }

  #waits(bytes: number): void {
    if (bytes !== 0) this.#waiting?.held(bytes);
  }

  #keep(nowUs: number, kind: string, length: number, taken: number): void {
    if (this.#done.length === KEPT_MOST) this.#unkept++;
    else this.#done.push([nowUs, kind, this.#offset, length, taken]);
  }
}

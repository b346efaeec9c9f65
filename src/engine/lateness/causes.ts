/**
 * Finds the likeliest cause of a late step. Code that does long work on the event loop's thread, or gives work to
 * another thread, records it here. For a late step, the work between its due time and its start decides.
 */

/** In the order of `Cause`. docs/reference/truth-log.md describes them. */
export const CAUSE_NAMES = ["writing", "collection", "scrape", "tokenization", "truth", "log", "loop", "host"] as const;
export type CauseName = (typeof CAUSE_NAMES)[number];

export enum Cause {
  None = 0,
  /** Writing the step before took long. */
  Writing = 1,
  Collection = 2,
  Scrape = 3,
  Tokenization = 4,
  Truth = 5,
  Log = 6,
  /** Unrecorded work of the event loop's thread. */
  Loop = 7,
  /** The thread had no processor. */
  Host = 8,
}

/** A step is late if its writing starts later than this after it was due. */
export const LATE_US = 1000;

/** Number of pieces of work that are remembered. */
const PIECES = 64;
const WORDS = 3;
/** Causes that can be work of other threads, the likeliest to delay the loop first. */
const THREADS = [Cause.Tokenization, Cause.Scrape, Cause.Truth];

/** Processor times from the host, in microseconds since the start. */
export interface ProcessorTimes {
  /** Returns the processor time of the event loop's thread. */
  threadUs(): number;
  /** Returns the processor time of all threads of the process. */
  processUs(): number;
}

/** Work in another thread. */
class OtherThreadWork {
  open = 0;
  sinceUs = 0;
  untilUs = Number.NEGATIVE_INFINITY;
}

export class Causes {
  /** Last pieces of work on the event loop's thread: cause, start, end. */
  readonly #pieces = new Float64Array(PIECES * WORDS);
  #next = 0;
  readonly #otherThreads = CAUSE_NAMES.map(() => new OtherThreadWork());
  readonly #overlaps = new Float64Array(CAUSE_NAMES.length + 1);
  /** End of the last step, and processor times at that moment. */
  #restUs = 0;
  #restThreadUs = 0;
  #restProcessUs = 0;
  /** Start of the last late step, and its cause. */
  #lateStartUs = Number.NEGATIVE_INFINITY;
  #lateCause = Cause.None;
  /** Collected since then if garbage was collected. */
  #canary = new WeakRef({});

  /** Without `host`, a step that no recorded work explains has the cause `Loop`. */
  constructor(private readonly host: ProcessorTimes | null = null) {}

  /** Records work on the event loop's thread. */
  did(cause: Cause, fromUs: number, untilUs: number): void {
    const at = this.#next * WORDS;
    this.#next = (this.#next + 1) % PIECES;
    this.#pieces[at] = cause;
    this.#pieces[at + 1] = fromUs;
    this.#pieces[at + 2] = untilUs;
  }

  /** Records that another thread was given work. */
  began(cause: Cause, nowUs: number): void {
    const work = this.#otherThreads[cause - 1]!;
    if (work.open++ === 0) work.sinceUs = nowUs;
  }

  /** Records that another thread has finished a piece of work. */
  ended(cause: Cause, nowUs: number): void {
    const work = this.#otherThreads[cause - 1]!;
    work.open--;
    work.untilUs = nowUs;
  }

  /** Records that a step was updated, written and followed by its plan. */
  stepped(fromUs: number, untilUs: number): void {
    this.did(Cause.Writing, fromUs, untilUs);
    this.#restUs = untilUs;
    if (this.host !== null) {
      this.#restThreadUs = this.host.threadUs();
      this.#restProcessUs = this.host.processUs();
    }
    if (this.#canary.deref() === undefined) this.#canary = new WeakRef({});
  }

  /** Returns the cause for a step that was due at `dueUs` and started at `startUs`. Must be called in the order of starts. */
  of(dueUs: number, startUs: number): Cause {
    // A step that was already overdue when the late step before it started has the same cause.
    const together = this.#lateStartUs - dueUs >= (startUs - dueUs) / 2;
    if (!together) this.#lateCause = this.#search(dueUs, startUs);
    this.#lateStartUs = startUs;
    return this.#lateCause;
  }

  #search(dueUs: number, startUs: number): Cause {
    const lateUs = startUs - dueUs;
    const known = this.#work(dueUs, startUs, lateUs / 2);
    if (known !== Cause.None) return known;
    const garbageCollected = this.#canary.deref() === undefined;
    if (this.host === null) return garbageCollected ? Cause.Collection : Cause.Loop;
    const leastUs = Math.min(lateUs, startUs - this.#restUs) / 2;
    // The thread slept before the step was due, so it used little processor time until then.
    if (this.host.threadUs() - this.#restThreadUs >= leastUs) return garbageCollected ? Cause.Collection : Cause.Loop;
    // No thread of this process had the processor.
    if (this.host.processUs() - this.#restProcessUs < leastUs) return Cause.Host;
    for (const cause of THREADS) {
      const { open, sinceUs, untilUs } = this.#otherThreads[cause - 1]!;
      if (untilUs > dueUs || (open > 0 && sinceUs < startUs)) return cause;
    }
    // Garbage is also collected by separate threads.
    return garbageCollected ? Cause.Collection : Cause.Host;
  }

  /** Returns the kind of work that fills most of the time, if it fills at least `leastUs`. */
  #work(fromUs: number, untilUs: number, leastUs: number): Cause {
    const overlaps = this.#overlaps.fill(0);
    for (let at = 0; at < PIECES * WORDS; at += WORDS) {
      const both = Math.min(untilUs, this.#pieces[at + 2]!) - Math.max(fromUs, this.#pieces[at + 1]!);
      if (both > 0) overlaps[this.#pieces[at]!]! += both;
    }
    let best = Cause.None;
    for (let cause = 1; cause < overlaps.length; cause++) {
      if (overlaps[cause]! >= leastUs && overlaps[cause]! > overlaps[best]!) best = cause;
    }
    return best;
  }
}

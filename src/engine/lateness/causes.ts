/**
 * Why was a step late? Whoever does long work on the loop's thread says so, and who gives work to another thread; a step
 * that began late looks at what lay between its due time and its start. The likeliest cause, not a proof.
 */

/** In the order of `Cause`; documented in docs/truth-log.md. */
export const CAUSE_NAMES = ["writing", "collection", "scrape", "tokenization", "truth", "log", "loop", "host"] as const;
export type CauseName = (typeof CAUSE_NAMES)[number];

export enum Cause {
  None = 0,
  /** The step before took its time. */
  Writing = 1,
  Collection = 2,
  Scrape = 3,
  Tokenization = 4,
  Truth = 5,
  Log = 6,
  /** Work of the loop's thread that nobody named. */
  Loop = 7,
  /** The thread had no processor. */
  Host = 8,
}

/** A step whose writing begins later than this after it was due is late. */
export const LATE_US = 1000;

/** Pieces of work that are remembered. */
const PIECES = 64;
const WORDS = 3;
/** Who may be at work in a thread of its own, the likeliest to hold the loop up first. */
const THREADS = [Cause.Tokenization, Cause.Scrape, Cause.Truth];

/** What the host says of processor time, in microseconds so far. */
export interface ProcessorTimes {
  /** Processor time of the loop's thread. */
  threadUs(): number;
  /** Processor time of all threads of the process. */
  processUs(): number;
}

/** Work that goes on in another thread. */
class Aside {
  open = 0;
  sinceUs = 0;
  untilUs = Number.NEGATIVE_INFINITY;
}

export class Causes {
  /** The last pieces of work on the loop's thread: cause, from, until. */
  readonly #pieces = new Float64Array(PIECES * WORDS);
  #next = 0;
  readonly #asides = CAUSE_NAMES.map(() => new Aside());
  readonly #overlaps = new Float64Array(CAUSE_NAMES.length + 1);
  readonly #host: ProcessorTimes | null;
  /** When the last step was done with, and what had been used by then. */
  #restUs = 0;
  #restThreadUs = 0;
  #restProcessUs = 0;
  /** The last late step: when it began, and why so late. */
  #lateStartUs = Number.NEGATIVE_INFINITY;
  #lateCause = Cause.None;
  /** Gone since then: garbage was collected. */
  #canary = new WeakRef({});

  /** Without `host` a step that nobody's work explains has `Loop` for a cause. */
  constructor(host: ProcessorTimes | null = null) {
    this.#host = host;
  }

  /** The loop's thread did this from one time to another. */
  did(cause: Cause, fromUs: number, untilUs: number): void {
    const at = this.#next * WORDS;
    this.#next = (this.#next + 1) % PIECES;
    this.#pieces[at] = cause;
    this.#pieces[at + 1] = fromUs;
    this.#pieces[at + 2] = untilUs;
  }

  /** Another thread was given such work. */
  began(cause: Cause, nowUs: number): void {
    const aside = this.#asides[cause - 1]!;
    if (aside.open++ === 0) aside.sinceUs = nowUs;
  }

  /** Another thread has done one piece of such work. */
  ended(cause: Cause, nowUs: number): void {
    const aside = this.#asides[cause - 1]!;
    aside.open--;
    aside.untilUs = nowUs;
  }

  /** A step was taken in, written and followed by its plan. */
  stepped(fromUs: number, untilUs: number): void {
    this.did(Cause.Writing, fromUs, untilUs);
    this.#restUs = untilUs;
    if (this.#host !== null) {
      this.#restThreadUs = this.#host.threadUs();
      this.#restProcessUs = this.#host.processUs();
    }
    if (this.#canary.deref() === undefined) this.#canary = new WeakRef({});
  }

  /** What held up a step that was due at `dueUs` and began at `startUs`? In order of their starts. */
  of(dueUs: number, startUs: number): Cause {
    // A step that was overdue when the late one before it began shares that one's cause.
    const together = this.#lateStartUs - dueUs >= (startUs - dueUs) / 2;
    if (!together) this.#lateCause = this.#search(dueUs, startUs);
    this.#lateStartUs = startUs;
    return this.#lateCause;
  }

  #search(dueUs: number, startUs: number): Cause {
    const lateUs = startUs - dueUs;
    const known = this.#work(dueUs, startUs, lateUs / 2);
    if (known !== Cause.None) return known;
    const collected = this.#canary.deref() === undefined;
    if (this.#host === null) return collected ? Cause.Collection : Cause.Loop;
    const leastUs = Math.min(lateUs, startUs - this.#restUs) / 2;
    // What the thread used before the step was due is little: it slept.
    if (this.#host.threadUs() - this.#restThreadUs >= leastUs) return collected ? Cause.Collection : Cause.Loop;
    // Nobody of ours had the processor.
    if (this.#host.processUs() - this.#restProcessUs < leastUs) return Cause.Host;
    for (const cause of THREADS) {
      const { open, sinceUs, untilUs } = this.#asides[cause - 1]!;
      if (untilUs > dueUs || (open > 0 && sinceUs < startUs)) return cause;
    }
    // Garbage is collected by threads of its own, too.
    return collected ? Cause.Collection : Cause.Host;
  }

  /** Which of the pieces of work fill most of that time, and at least so much of it? */
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

/**
 * Keeps the truth of a running server in memory: the rows of the last generations that ended, and the rows of the steps
 * that these and the generations still alive name. Rows lie here as in the pages of the truth log and become text when a
 * client asks.
 */
import { bothObservers, type Observer } from "../engine/observer.ts";
import { Page, STEP_WORDS } from "./page.ts";
import { engineOf, firstStepOf, type Words } from "./request-row.ts";

/** Steps that are kept at most, of all engines of the process together. */
export const STEPS_KEPT = 2 ** 17;
/** Steps are kept and forgotten in parts of this many. */
export const PART_STEPS = 2 ** 12;
/** Most words in all rows of requests together. */
export const WORDS_MOST = 2 ** 23;

/** The steps of one engine, in parts by number. */
class StepParts {
  /** Number of the last step. */
  last = 0;
  readonly #capacity: number;
  /** By the number of their first step divided by `PART_STEPS`, oldest first. */
  readonly #parts = new Map<number, Words>();

  /** `capacity`: a multiple of `PART_STEPS`. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Place for the row of the next step. `needed` returns the first step that somebody may still ask for. */
  next(step: number, needed: () => number): { readonly words: Words; readonly at: number } {
    this.last = step;
    const number = Math.floor(step / PART_STEPS);
    let words = this.#parts.get(number);
    if (words === undefined) {
      words = this.#forget(Math.max(step - this.#capacity, needed())) ?? new Float64Array(PART_STEPS * STEP_WORDS);
      this.#parts.set(number, words);
    }
    return { words, at: (step % PART_STEPS) * STEP_WORDS };
  }

  /** Forgets the parts that end before `step`, and returns the memory of one of them. */
  #forget(step: number): Words | undefined {
    let free: Words | undefined;
    for (const [number, words] of this.#parts) {
      if ((number + 1) * PART_STEPS > step) break;
      this.#parts.delete(number);
      free = words;
    }
    return free;
  }

  /** The row of a step; null if it is not kept, or has not come yet. */
  row(step: number): Words | null {
    if (step < 1 || step > this.last || this.last - step >= this.#capacity) return null;
    const at = (step % PART_STEPS) * STEP_WORDS;
    const words = this.#parts.get(Math.floor(step / PART_STEPS));
    return words?.subarray(at, at + words[at + 1]!) ?? null;
  }
}

export class Recent {
  /** The number of the oldest row that is kept, and of the next one: they count on from where this process began. */
  first: number;
  next: number;
  readonly #engineFirst: number;
  readonly #steps: readonly StepParts[];
  /** By number modulo `most`. */
  readonly #rows: Words[] = [];
  #words = 0;
  readonly #page = new Page();
  readonly #step = new Page(new Float64Array(STEP_WORDS));

  /**
   * `most`: rows of generations. `base`: number of the first; larger than that of any row of a process that was here
   * before, so that its cursors point in front of this one's.
   */
  constructor(
    readonly most: number,
    engines: number,
    engineFirst: number,
    base: number,
  ) {
    this.#engineFirst = engineFirst;
    const each = Math.max(PART_STEPS, 2 ** Math.floor(Math.log2(STEPS_KEPT / engines)));
    this.#steps = Array.from({ length: engines }, () => new StepParts(each));
    this.first = base;
    this.next = base;
  }

  /** Makes the observer of the engine with this label. */
  observer(engine: number): Observer {
    const steps = this.#steps[engine - this.#engineFirst]!;
    return {
      step: (facts) => {
        const { words, at } = steps.next(facts.step, () => Math.min(facts.oldestStep(), this.#firstStep(engine)));
        this.#step.clear();
        this.#step.step(engine, facts);
        words.set(this.#step.words, at);
      },
      request: (timeline) => {
        this.#page.clear();
        this.#page.request(engine, timeline, true);
        this.#keep(this.#page.words.slice(0, this.#page.used));
      },
      idle() {},
    };
  }

  /** The row of that number; null: not kept. */
  row(number: number): Words | null {
    return number >= this.first && number < this.next ? this.#rows[number % this.most]! : null;
  }

  /** The row of a step; null: not kept. */
  step(engine: number, step: number): Words | null {
    return this.#steps[engine - this.#engineFirst]?.row(step) ?? null;
  }

  /** The last step of an engine that is there. */
  lastStep(engine: number): number {
    return this.#steps[engine - this.#engineFirst]?.last ?? 0;
  }

  /** The first step that a kept row of this engine names; Infinity if none names any. */
  #firstStep(engine: number): number {
    let first = Number.POSITIVE_INFINITY;
    for (let number = this.first; number < this.next; number++) {
      const row = this.#rows[number % this.most]!;
      if (engineOf(row) === engine) first = Math.min(first, firstStepOf(row));
    }
    return first;
  }

  #keep(row: Words): void {
    if (this.next - this.first >= this.most) this.#forget();
    this.#rows[this.next++ % this.most] = row;
    this.#words += row.length;
    while (this.#words > WORDS_MOST) this.#forget();
  }

  #forget(): void {
    const place = this.first++ % this.most;
    this.#words -= this.#rows[place]!.length;
    this.#rows[place] = NOTHING;
  }
}

const NOTHING: Words = new Float64Array(0);

/** Who is told of the engine with a rank: the log, the kept rows, both; none where nobody is. */
export function observersOf(
  engineFirst: number,
  ...all: readonly ({ observer(engine: number): Observer } | null)[]
): { readonly observer?: (rank: number) => Observer } {
  const some = all.filter((someone) => someone !== null);
  if (some.length === 0) return {};
  return { observer: (rank) => some.map((one) => one.observer(engineFirst + rank)).reduce(bothObservers) };
}

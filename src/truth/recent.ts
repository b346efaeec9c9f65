/**
 * Keeps the truth of a running server in memory: rows of the generations that ended last, and rows of the steps that
 * these and the running generations refer to. The rows have the form of the truth log's pages and are converted to text
 * when a client requests them.
 */
import { bothObservers, type Observer } from "../engine/observer.ts";
import { Page, STEP_WORDS } from "./page.ts";
import { engineOf, firstStepOf, type Words } from "./request-row.ts";

/** Largest number of steps that are kept, over all engines of the process. */
export const STEPS_KEPT = 2 ** 17;
/** Number of steps in a part. Steps are allocated and dropped in parts. */
export const PART_STEPS = 2 ** 12;
/** Largest number of words in all rows of requests. */
export const WORDS_MOST = 2 ** 23;

/** Steps of one engine, in parts. */
class StepParts {
  /** Number of the last step. */
  last = 0;
  /** Parts by the number of their first step divided by `PART_STEPS`, oldest first. */
  readonly #parts = new Map<number, Words>();

  /** `capacity` is a multiple of `PART_STEPS`. */
  constructor(private readonly capacity: number) {}

  /** Returns the place for the row of the next step. `needed` returns the first step that may still be requested. */
  next(step: number, needed: () => number): { readonly words: Words; readonly at: number } {
    this.last = step;
    const number = Math.floor(step / PART_STEPS);
    let words = this.#parts.get(number);
    if (words === undefined) {
      words = this.#forget(Math.max(step - this.capacity, needed())) ?? new Float64Array(PART_STEPS * STEP_WORDS);
      this.#parts.set(number, words);
    }
    return { words, at: (step % PART_STEPS) * STEP_WORDS };
  }

  /** Drops the parts that end before `step`. Returns the memory of one of them for reuse. */
  #forget(step: number): Words | undefined {
    let free: Words | undefined;
    for (const [number, words] of this.#parts) {
      if ((number + 1) * PART_STEPS > step) break;
      this.#parts.delete(number);
      free = words;
    }
    return free;
  }

  /** Returns the row of a step. Returns null if it is not kept or does not exist yet. */
  row(step: number): Words | null {
    if (step < 1 || step > this.last || this.last - step >= this.capacity) return null;
    const at = (step % PART_STEPS) * STEP_WORDS;
    const words = this.#parts.get(Math.floor(step / PART_STEPS));
    return words?.subarray(at, at + words[at + 1]!) ?? null;
  }
}

export class RecentRows {
  /** Numbers of the oldest kept row and of the next row. */
  first: number;
  next: number;
  readonly #steps: readonly StepParts[];
  /** Rows by number modulo `most`. */
  readonly #rows: Words[] = [];
  #words = 0;
  readonly #page = new Page();
  readonly #step = new Page(new Float64Array(STEP_WORDS));

  /**
   * `most`: number of generations that are kept. `base`: number of the first row. It is larger than any row number of
   * an earlier process, so that an old cursor points before the first row.
   */
  constructor(
    readonly most: number,
    engines: number,
    private readonly engineFirst: number,
    base: number,
  ) {
    const each = Math.max(PART_STEPS, 2 ** Math.floor(Math.log2(STEPS_KEPT / engines)));
    this.#steps = Array.from({ length: engines }, () => new StepParts(each));
    this.first = base;
    this.next = base;
  }

  /** Returns the observer for the engine with this label. */
  observer(engine: number): Observer {
    const steps = this.#steps[engine - this.engineFirst]!;
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

  /** Returns the row with this number, or null if it is not kept. */
  row(number: number): Words | null {
    return number >= this.first && number < this.next ? this.#rows[number % this.most]! : null;
  }

  /** Returns the row of a step, or null if it is not kept. */
  step(engine: number, step: number): Words | null {
    return this.#steps[engine - this.engineFirst]?.row(step) ?? null;
  }

  /** Returns the first step that a kept row of this engine refers to, or Infinity. */
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

/** Returns an option for the engine that combines the observers of all sinks, such as log and kept rows. Without sinks, returns no option. */
export function observersOf(
  engineFirst: number,
  ...all: readonly ({ observer(engine: number): Observer } | null)[]
): { readonly observer?: (rank: number) => Observer } {
  const sinks = all.filter((sink) => sink !== null);
  if (sinks.length === 0) return {};
  return { observer: (rank) => sinks.map((sink) => sink.observer(engineFirst + rank)).reduce(bothObservers) };
}

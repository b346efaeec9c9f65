/**
 * What does a running server keep of the truth? The rows of the last generations that ended and of the last steps, in
 * memory, as they lie in the pages of the truth log; they become text when somebody asks.
 */
import { bothObservers, type Observer } from "../engine/observer.ts";
import { Page, STEP_WORDS } from "./page.ts";

/** Steps that are kept, of all engines of the process together. */
export const STEPS_KEPT = 2 ** 17;
/** The ring of steps grows by so many. */
const PART = 2 ** 12;
/** Most words in all rows of requests together. */
export const WORDS_MOST = 2 ** 23;

type Words = Float64Array<ArrayBuffer>;

/** The steps of one engine: a ring by number. */
class StepRing {
  /** The number of the last one. */
  last = 0;
  readonly #parts: Words[] = [];

  /** `capacity`: a multiple of PART. */
  constructor(readonly capacity: number) {}

  /** Where the row of the next step is to be written. */
  next(step: number): { readonly words: Words; readonly at: number } {
    this.last = step;
    const place = step % this.capacity;
    const part = Math.floor(place / PART);
    this.#parts[part] ??= new Float64Array(PART * STEP_WORDS);
    return { words: this.#parts[part], at: (place % PART) * STEP_WORDS };
  }

  /** The row of a step; null: not kept, or not there yet. */
  row(step: number): Words | null {
    if (step < 1 || step > this.last || this.last - step >= this.capacity) return null;
    const place = step % this.capacity;
    const at = (place % PART) * STEP_WORDS;
    const words = this.#parts[Math.floor(place / PART)];
    return words?.subarray(at, at + words[at + 1]!) ?? null;
  }
}

export class Recent {
  /** The number of the oldest row that is kept, and of the next one: they count on from where this process began. */
  first: number;
  next: number;
  readonly #engineFirst: number;
  readonly #steps: readonly StepRing[];
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
    const each = Math.max(PART, 2 ** Math.floor(Math.log2(STEPS_KEPT / engines)));
    this.#steps = Array.from({ length: engines }, () => new StepRing(each));
    this.first = base;
    this.next = base;
  }

  /** Makes the observer of the engine with this label. */
  observer(engine: number): Observer {
    const ring = this.#steps[engine - this.#engineFirst]!;
    return {
      step: (facts) => {
        const { words, at } = ring.next(facts.step);
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

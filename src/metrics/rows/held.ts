/**
 * What does a scrape show? One held copy per refresh class, all in one array of doubles: a scrape reads copies and nothing
 * else. `now` and `step` are written when they are wanted (the engine keeps what its last update left); a copy of
 * `every` so many milliseconds is written when its period is over, before anything moves after it.
 */
import type { Snapshot, SnapshotView } from "../../engine/interface/types.ts";
import { Layout, type Shape } from "./flat.ts";
import type { Refresh } from "./table.ts";
import { Watched } from "./watched.ts";

/** The numbers as they stand (`now`), or as the last update left them (`step`): a live view will do. */
export type Source = (fresh: "now" | "step") => SnapshotView;

/** Written down, equal for equal classes. */
export const refreshKey = (refresh: Refresh) => (typeof refresh === "string" ? refresh : `every ${refresh.everyMs} ms`);

/** Copies one after the other, in the order of `refreshes`. */
export const heldLength = (shape: Shape, refreshes: readonly Refresh[]) => new Layout(shape).length * refreshes.length;

export class Held {
  readonly #layout: Layout;
  readonly #refreshes: readonly Refresh[];
  readonly #source: Source;
  /** Ends of the current period of each class, engine time; infinite where there is none. */
  readonly #untilUs: Float64Array;
  /** The copies; `heldLength` doubles. */
  readonly numbers: Float64Array;

  /** `into` gets the copies, where they are to lie in memory that others see. */
  constructor(shape: Shape, refreshes: readonly Refresh[], source: Source, nowUs: number, into?: Float64Array) {
    this.#layout = new Layout(shape);
    this.#refreshes = refreshes;
    this.#source = source;
    this.numbers = into ?? new Float64Array(heldLength(shape, refreshes));
    this.#untilUs = Float64Array.from(refreshes, () => Number.POSITIVE_INFINITY);
    refreshes.forEach((_, index) => void this.#write(index, nowUs));
  }

  /** To be called before anything moves at `nowUs`: copies of periods that are over by then. */
  before(nowUs: number): void {
    for (let i = 0; i < this.#untilUs.length; i++) if (nowUs >= this.#untilUs[i]!) this.#write(i, nowUs);
  }

  /** Every copy as it has to be at `nowUs`. */
  refresh(nowUs: number): Float64Array {
    this.before(nowUs);
    this.#refreshes.forEach((refresh, index) => {
      if (typeof refresh === "string") this.#write(index, nowUs);
    });
    return this.numbers;
  }

  #write(index: number, nowUs: number): void {
    const refresh = this.#refreshes[index]!;
    this.#layout.write(this.#source(refresh === "now" ? "now" : "step"), this.numbers, index * this.#layout.length);
    if (typeof refresh === "string") return;
    const periodUs = refresh.everyMs * 1000;
    this.#untilUs[index] = (Math.floor(nowUs / periodUs) + 1) * periodUs;
  }
}

/** Held copies by class: the same snapshots for every page, which show what was taken last. */
export interface HeldCopies {
  (refresh: Refresh): Snapshot;
  /** Which of them moves; absent where nobody looks. */
  readonly watched?: Watched;
}

/** Reads what a `Held` of that shape and those classes has written. The copies that it returns hold until it is called again. */
export function heldReader(shape: Shape, refreshes: readonly Refresh[]): (numbers: Float64Array) => HeldCopies {
  const watched = new Watched(shape, refreshes.length);
  const places = new Map(refreshes.map((refresh, index) => [refreshKey(refresh), index]));
  const copy = (refresh: Refresh) => {
    const at = places.get(refreshKey(refresh));
    if (at === undefined) throw new Error(`no copy is held for ${refreshKey(refresh)}`);
    return watched.snapshots[at]!;
  };
  const copies = Object.assign(copy, { watched });
  return (numbers) => {
    watched.take(numbers);
    return copies;
  };
}

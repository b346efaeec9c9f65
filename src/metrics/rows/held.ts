/**
 * Copies of all numbers, one per refresh class, in one array of doubles. Scrapes read only these copies. The copies
 * `now` and `step` are written on demand (the engine keeps the values of its last update for `step`). A copy with a
 * period is written when the period is over, before anything changes after it.
 */
import type { Snapshot, SnapshotView } from "../../engine/interface/types.ts";
import { Layout, type Shape } from "./flat.ts";
import type { Refresh } from "./table.ts";
import { ChangeTracker } from "./watched.ts";

/** Returns the current numbers (`now`), or those of the last update (`step`). May return a live view. */
export type Source = (fresh: "now" | "step") => SnapshotView;

/** Returns a text that is equal for equal classes. */
export const refreshKey = (refresh: Refresh) => (typeof refresh === "string" ? refresh : `every ${refresh.everyMs} ms`);

/** Returns the doubles of all copies, which follow each other in the order of `refreshes`. */
export const copiesLength = (shape: Shape, refreshes: readonly Refresh[]) =>
  new Layout(shape).length * refreshes.length;

export class SnapshotCopies {
  readonly #layout: Layout;
  readonly #refreshes: readonly Refresh[];
  readonly #source: Source;
  /** Engine time at which the current period of each class ends. Infinite without a period. */
  readonly #untilUs: Float64Array;
  /** The copies: `copiesLength` doubles. */
  readonly numbers: Float64Array;

  /** `into` receives the copies, if they must be in shared memory. */
  constructor(shape: Shape, refreshes: readonly Refresh[], source: Source, nowUs: number, into?: Float64Array) {
    this.#layout = new Layout(shape);
    this.#refreshes = refreshes;
    this.#source = source;
    this.numbers = into ?? new Float64Array(copiesLength(shape, refreshes));
    this.#untilUs = Float64Array.from(refreshes, () => Number.POSITIVE_INFINITY);
    refreshes.forEach((_, index) => void this.#write(index, nowUs));
  }

  /** Writes the copies whose periods are over. Must be called before anything changes at `nowUs`. */
  before(nowUs: number): void {
    for (let i = 0; i < this.#untilUs.length; i++) if (nowUs >= this.#untilUs[i]!) this.#write(i, nowUs);
  }

  /** Brings every copy up to date for `nowUs` and returns them. */
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

/** Returns the copy of a refresh class. All families of a page get the same snapshots, which show the numbers read last. */
export interface CopiesByRefresh {
  (refresh: Refresh): Snapshot;
  /** Tracks which numbers changed. Absent if no reader needs it. */
  readonly watched?: ChangeTracker;
}

/**
 * Reads the copies that a `SnapshotCopies` with this shape and these classes has written. The returned snapshots are
 * valid until the next call.
 */
export function copiesReader(shape: Shape, refreshes: readonly Refresh[]): (numbers: Float64Array) => CopiesByRefresh {
  const watched = new ChangeTracker(shape, refreshes.length);
  const places = new Map(refreshes.map((refresh, index) => [refreshKey(refresh), index]));
  const copy = (refresh: Refresh) => {
    const at = places.get(refreshKey(refresh));
    if (at === undefined) throw new Error(`there is no copy for ${refreshKey(refresh)}`);
    return watched.snapshots[at]!;
  };
  const copies = Object.assign(copy, { watched });
  return (numbers) => {
    watched.take(numbers);
    return copies;
  };
}

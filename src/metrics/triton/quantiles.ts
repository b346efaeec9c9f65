/**
 * Which quantiles does a Triton summary show? The estimates of prometheus-cpp 1.0.1, number for number: targeted quantiles
 * after Cormode, Korn, Muthukrishnan and Srivastava (`detail/ckms_quantiles.cc`), in a ring of estimators that are
 * emptied in turn (`detail/time_window_quantiles.cc`). For few values they lie below the order statistic.
 */

export interface Target {
  readonly quantile: number;
  readonly error: number;
}

/** Values wait here until they are merged in: so many at most. */
const BUFFER = 500;

class Estimator {
  readonly #targets: readonly Target[];
  readonly #buffer = new Float64Array(BUFFER);
  #buffered = 0;
  #count = 0;
  /** The kept samples, rising; `#gains` is by how many ranks each lies above the one before, `#slacks` how unsure that is. */
  #values: number[] = [];
  #gains: number[] = [];
  #slacks: number[] = [];

  constructor(targets: readonly Target[]) {
    this.#targets = targets;
  }

  insert(value: number): void {
    this.#buffer[this.#buffered++] = value;
    if (this.#buffered < BUFFER) return;
    this.#merge();
    this.#compress();
  }

  /** NaN while it is empty. */
  get(quantile: number): number {
    this.#merge();
    this.#compress();
    const values = this.#values;
    if (values.length === 0) return Number.NaN;
    const wanted = Math.trunc(quantile * this.#count);
    const bound = wanted + this.#allowed(wanted) / 2;
    let rank = 0;
    for (let i = 1; i < values.length; i++) {
      rank += this.#gains[i - 1]!;
      if (rank + this.#gains[i]! + this.#slacks[i]! > bound) return values[i - 1]!;
    }
    return values.at(-1)!;
  }

  reset(): void {
    this.#count = 0;
    this.#buffered = 0;
    this.#values = [];
    this.#gains = [];
    this.#slacks = [];
  }

  /** By how many ranks an answer may be wrong there. The library takes the number of samples for the number of values. */
  #allowed(rank: number): number {
    const size = this.#values.length;
    let least = size + 1;
    for (const { quantile, error } of this.#targets) {
      const allowed =
        rank <= quantile * size ? ((2 * error) / (1 - quantile)) * (size - rank) : ((2 * error) / quantile) * rank;
      if (allowed < least) least = allowed;
    }
    return least;
  }

  #merge(): void {
    if (this.#buffered === 0) return;
    const incoming = this.#buffer.subarray(0, this.#buffered).sort();
    const values = this.#values;
    let from = 0;
    if (values.length === 0) {
      this.#put(0, incoming[0]!, 0);
      from = 1;
    }
    let before = 0;
    let at = 1;
    for (let i = from; i < incoming.length; i++) {
      const value = incoming[i]!;
      while (at < values.length && values[before]! < value) before = at++;
      if (values[before]! > value) at--;
      const edge = at === 1 || at + 1 === values.length;
      this.#put(at, value, edge ? 0 : Math.floor(this.#allowed(at + 1)) + 1);
      before = at++;
    }
    this.#buffered = 0;
  }

  #put(at: number, value: number, slack: number): void {
    this.#values.splice(at, 0, value);
    this.#gains.splice(at, 0, 1);
    this.#slacks.splice(at, 0, slack);
    this.#count++;
  }

  /** Drops samples that no target needs. After a drop the next pair begins one further, as in the library. */
  #compress(): void {
    const gains = this.#gains;
    const slacks = this.#slacks;
    let next = 0;
    for (let at = 1; at < this.#values.length; ) {
      const before = next;
      next = at++;
      if (gains[before]! + gains[next]! + slacks[next]! > this.#allowed(at - 1)) continue;
      gains[next]! += gains[before]!;
      this.#values.splice(before, 1);
      gains.splice(before, 1);
      slacks.splice(before, 1);
    }
  }
}

const WINDOW_US = 60_000_000;
const ESTIMATORS = 5;
const ROTATION_US = WINDOW_US / ESTIMATORS;

/** The last 48 to 60 seconds: every estimator takes every value, the oldest one answers. */
export class Quantiles {
  readonly #estimators: readonly Estimator[];
  #current = 0;
  #rotatedUs: number;

  constructor(targets: readonly Target[], nowUs: number) {
    this.#estimators = Array.from({ length: ESTIMATORS }, () => new Estimator(targets));
    this.#rotatedUs = nowUs;
  }

  insert(value: number, nowUs: number): void {
    this.rotate(nowUs);
    for (const estimator of this.#estimators) estimator.insert(value);
  }

  /** NaN where nothing was inserted of late. Call `rotate` first. */
  get(quantile: number): number {
    return this.#estimators[this.#current]!.get(quantile);
  }

  /** Whether an estimator was emptied by that. */
  rotate(nowUs: number): boolean {
    let rotated = false;
    while (nowUs - this.#rotatedUs > ROTATION_US) {
      this.#estimators[this.#current]!.reset();
      this.#current = (this.#current + 1) % ESTIMATORS;
      this.#rotatedUs += ROTATION_US;
      rotated = true;
    }
    return rotated;
  }
}

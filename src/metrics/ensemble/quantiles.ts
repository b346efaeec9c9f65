/**
 * Estimates quantiles like prometheus-cpp 1.0.1, number for number: targeted quantiles after Cormode, Korn,
 * Muthukrishnan and Srivastava (`detail/ckms_quantiles.cc`), in a ring of estimators that are emptied in turn
 * (`detail/time_window_quantiles.cc`). With few values, the estimates are below the order statistic.
 */

export interface QuantileTarget {
  readonly quantile: number;
  readonly error: number;
}

/** Largest number of values that wait to be merged. */
const BUFFER = 500;

/** The kept samples, rising. `gains`: by how many ranks each is above the one before. `slacks`: the uncertainty of its rank. */
class Samples {
  length = 0;
  values = new Float64Array(BUFFER);
  gains = new Int32Array(BUFFER);
  slacks = new Int32Array(BUFFER);

  push(value: number, gain: number, slack: number): void {
    const at = this.length++;
    if (at === this.values.length) this.#grow();
    this.values[at] = value;
    this.gains[at] = gain;
    this.slacks[at] = slack;
  }

  /** Grows by half. The number of kept samples grows with the logarithm of the number of values. */
  #grow(): void {
    const { values, gains, slacks } = this;
    const size = Math.ceil(values.length * 1.5);
    this.values = new Float64Array(size);
    this.gains = new Int32Array(size);
    this.slacks = new Int32Array(size);
    this.values.set(values);
    this.gains.set(gains);
    this.slacks.set(slacks);
  }
}

class Estimator {
  /**
   * Factors of the allowed error, by target. At a rank below the target, the error is `#above` times the number of ranks above
   * that rank. At any other rank it is `#below` times the rank.
   */
  readonly #above: Float64Array;
  readonly #below: Float64Array;
  readonly #buffer = new Float64Array(BUFFER);
  #buffered = 0;
  #count = 0;
  #samples = new Samples();
  /** Receives the next state of the samples and is then swapped with them. */
  #spare = new Samples();

  constructor(private readonly targets: readonly QuantileTarget[]) {
    this.#above = Float64Array.from(targets, ({ quantile, error }) => (2 * error) / (1 - quantile));
    this.#below = Float64Array.from(targets, ({ quantile, error }) => (2 * error) / quantile);
  }

  insert(value: number): void {
    this.#buffer[this.#buffered++] = value;
    if (this.#buffered < BUFFER) return;
    this.#merge();
    this.#compress();
  }

  /** Returns the estimate, or NaN if there are no values. */
  get(quantile: number): number {
    this.#merge();
    this.#compress();
    const { length, values, gains, slacks } = this.#samples;
    if (length === 0) return Number.NaN;
    const targetRank = Math.trunc(quantile * this.#count);
    const bound = targetRank + this.#allowed(targetRank, length) / 2;
    let rank = 0;
    for (let i = 1; i < length; i++) {
      rank += gains[i - 1]!;
      if (rank + gains[i]! + slacks[i]! > bound) return values[i - 1]!;
    }
    return values[length - 1]!;
  }

  reset(): void {
    this.#count = 0;
    this.#buffered = 0;
    this.#samples.length = 0;
  }

  /** Returns the allowed error at a rank, in ranks. Like the library, uses the number of samples where the number of values is meant. */
  #allowed(rank: number, size: number): number {
    let least = size + 1;
    for (let i = 0; i < this.targets.length; i++) {
      const below = rank <= this.targets[i]!.quantile * size;
      const allowed = below ? this.#above[i]! * (size - rank) : this.#below[i]! * rank;
      if (allowed < least) least = allowed;
    }
    return least;
  }

  /** Merges waiting values in one pass. Positions and uncertainties are as if each value were inserted by itself. */
  #merge(): void {
    if (this.#buffered === 0) return;
    const incoming = this.#buffer.subarray(0, this.#buffered).sort();
    const old = this.#samples;
    const into = this.#spare;
    into.length = 0;
    let next = 0; // index in the old samples
    let from = 0; // index in the incoming values
    if (old.length === 0) into.push(incoming[from++]!, 1, 0);
    else into.push(old.values[0]!, old.gains[0]!, old.slacks[next++]!);
    this.#count += incoming.length;
    for (; from < incoming.length; from++) {
      const value = incoming[from]!;
      while (next < old.length && into.values[into.length - 1]! < value) {
        into.push(old.values[next]!, old.gains[next]!, old.slacks[next]!);
        next++;
      }
      if (into.values[into.length - 1]! > value) {
        into.length--;
        next--;
      }
      const at = into.length;
      const size = at + old.length - next;
      const edge = at === 1 || at + 1 === size;
      into.push(value, 1, edge ? 0 : Math.floor(this.#allowed(at + 1, size)) + 1);
    }
    for (; next < old.length; next++) into.push(old.values[next]!, old.gains[next]!, old.slacks[next]!);
    this.#buffered = 0;
    this.#samples = into;
    this.#spare = old;
  }

  /** Drops samples that no target needs. After a drop, the next pair starts one sample further, as in the library. */
  #compress(): void {
    const samples = this.#samples;
    const { values, gains, slacks } = samples;
    const before = samples.length;
    let dropped = 0;
    let pair = 0; // first of the pair, by its old index
    while (pair + 1 < before) {
      const other = pair + 1;
      const together = gains[pair]! + gains[other]! + slacks[other]!;
      const drop = together <= this.#allowed(other - dropped, before - dropped);
      // Without a drop, the first sample moves to its new index. With a drop, the second sample of the pair does.
      const kept = drop ? other : pair;
      const gain = drop ? gains[pair]! + gains[other]! : gains[pair]!;
      const place = pair - dropped;
      values[place] = values[kept]!;
      slacks[place] = slacks[kept]!;
      gains[place] = gain;
      if (drop) dropped++;
      pair += drop ? 2 : 1;
    }
    if (pair < before) {
      values[pair - dropped] = values[pair]!;
      gains[pair - dropped] = gains[pair]!;
      slacks[pair - dropped] = slacks[pair]!;
    }
    samples.length = before - dropped;
  }
}

const WINDOW_US = 60_000_000;
const ESTIMATORS = 5;
const ROTATION_US = WINDOW_US / ESTIMATORS;

/** Quantiles of the last 48 to 60 seconds. Every estimator receives every value, and the oldest one answers. */
export class Quantiles {
  readonly #estimators: readonly Estimator[];
  #current = 0;
  #rotatedUs: number;

  constructor(targets: readonly QuantileTarget[], nowUs: number) {
    this.#estimators = Array.from({ length: ESTIMATORS }, () => new Estimator(targets));
    this.#rotatedUs = nowUs;
  }

  insert(value: number, nowUs: number): void {
    this.rotate(nowUs);
    for (const estimator of this.#estimators) estimator.insert(value);
  }

  /** Returns the estimate, or NaN without recent values. Call `rotate` first. */
  get(quantile: number): number {
    return this.#estimators[this.#current]!.get(quantile);
  }

  /** Returns true if an estimator was emptied. */
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

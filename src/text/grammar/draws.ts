/** Random draws for structured answers. The same seed gives the same sequence of draws, and so the same answer. */
import { mix, type Random, seeded } from "../../base/random.ts";

/** Salt that makes these draws independent of those of default text. */
const SALT = 0x510e527f;

/** The draws of one answer. */
export class Draws {
  readonly #next: Random;

  constructor(seed: number) {
    this.#next = seeded(mix(seed ^ SALT, 0));
  }

  /** Returns a whole number from 0 to `count - 1`, evenly. `count` is at most 2^32. */
  below(count: number): number {
    return Math.floor((this.#next() * count) / 2 ** 32);
  }

  /** Returns a number of at least 0 and below 1. */
  unit(): number {
    return this.#next() / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** Returns an index, with a probability in proportion to its weight. */
  weighted(weights: readonly number[]): number {
    let left = this.unit() * weights.reduce((sum, weight) => sum + weight, 0);
    for (const [at, weight] of weights.entries()) {
      left -= weight;
      if (left < 0) return at;
    }
    return weights.length - 1;
  }
}

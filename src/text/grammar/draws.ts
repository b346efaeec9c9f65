/** Where do the choices of a structured answer come from? One sequence per seed; the same seed gives the same answer. */
import { mix, type Random, seeded } from "../../base/random.ts";

/** Separates these draws from those of default text. */
const SALT = 0x510e527f;

export class Draws {
  readonly #next: Random;

  constructor(seed: number) {
    this.#next = seeded(mix(seed ^ SALT, 0));
  }

  /** Evenly one of 0 … count - 1; count is at most 2^32. */
  below(count: number): number {
    return Math.floor((this.#next() * count) / 2 ** 32);
  }

  /** From 0 up to, not including, 1. */
  unit(): number {
    return this.#next() / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** An index, by weight. */
  weighted(weights: readonly number[]): number {
    let left = this.unit() * weights.reduce((sum, weight) => sum + weight, 0);
    for (const [at, weight] of weights.entries()) {
      left -= weight;
      if (left < 0) return at;
    }
    return weights.length - 1;
  }
}

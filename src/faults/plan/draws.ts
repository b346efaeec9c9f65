/**
 * Random draws of faults. A draw depends only on the plan's seed, the request's key, the index of the fault in the plan, and a
 * number that the fault passes.
 */
import { mix } from "../../base/random.ts";

const FNV_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

export class FaultDraws {
  readonly #seed: number;

  constructor(seed: number, key: string) {
    let hash = FNV_BASIS;
    for (const byte of Buffer.from(key)) hash = Math.imul(hash ^ byte, FNV_PRIME);
    this.#seed = mix(seed >>> 0, hash >>> 0);
  }

  /** Draws a number from 0 to 1, excluding 1. `place`: index of the fault in the plan. `n`: number of the draw. */
  fraction(place: number, n: number): number {
    return mix(mix(this.#seed, place), n) / 2 ** 32;
  }

  /** Draws a whole number from 0 to `end` - 1. `place` and `n` are those of `fraction`. */
  below(place: number, n: number, end: number): number {
    return Math.floor(this.fraction(place, n) * end);
  }
}

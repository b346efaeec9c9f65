/** What vector stands for a prompt? One of length 1, drawn from its ids and a seed. */

import { mix } from "../../base/random.ts";
import { greedySeed } from "./answers.ts";

/** Separates these draws from those of texts. */
const VECTOR = 0x510e527f;

/** Equal for equal ids and seed; a shorter vector is not the beginning of a longer one, as each has length 1 itself. */
export function embedding(ids: Uint32Array, dimensions: number, seed: number): Float32Array {
  const drawn = greedySeed(ids) ^ mix(seed ^ VECTOR, 0);
  const vector = new Float64Array(dimensions);
  let sum = 0;
  for (let at = 0; at < dimensions; at++) {
    // From -1 to 1, and never 0.
    const value = (mix(drawn, at) + 0.5) / 2 ** 31 - 1;
    vector[at] = value;
    sum += value * value;
  }
  const length = Math.sqrt(sum);
  return Float32Array.from(vector, (value) => value / length);
}

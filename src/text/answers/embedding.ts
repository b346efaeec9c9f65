/** Draws a vector of length 1 as the embedding of a prompt, from its IDs and a seed. */

import { mix } from "../../base/random.ts";
import { greedySeed } from "./answers.ts";

/** Salt that makes these draws independent of those of texts. */
const VECTOR = 0x510e527f;

/** Returns the same vector for the same IDs and seed. A shorter vector is not the start of a longer one: both have length 1. */
export function embedding(ids: Uint32Array, dimensions: number, seed: number): Float32Array {
  const drawn = greedySeed(ids) ^ mix(seed ^ VECTOR, 0);
  const vector = new Float64Array(dimensions);
  let sum = 0;
  for (let at = 0; at < dimensions; at++) {
    // Between -1 and 1, never 0.
    const value = (mix(drawn, at) + 0.5) / 2 ** 31 - 1;
    vector[at] = value;
    sum += value * value;
  }
  const length = Math.sqrt(sum);
  return Float32Array.from(vector, (value) => value / length);
}

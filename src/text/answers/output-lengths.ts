/**
 * When does an answer end by itself? A model's own length, drawn from the request's seed; the end of sequence is its last
 * token and counts, as in vLLM 0.33 (`v1/core/sched/utils.py`, check_stop).
 */

import { mix } from "../../base/random.ts";
import { logNormal } from "./answers.ts";
import type { OutputLengths } from "./length-forms.ts";

/** The output position (from 1) at which a request with this seed says end-of-sequence. Same seed, same length. */
export type NaturalLength = (seed: number) => number;

/** Separates the draw of a length from those of the words. */
const LENGTH_SALT = 0x1f83d9ab;
/** The core's positions have 32 bits, and no context is that long. */
const MOST_TOKENS = 2 ** 30;

/** `traced`: the lengths in the file, at least one, where they are taken from one. */
export function naturalLength(lengths: OutputLengths, traced: Uint32Array | null): NaturalLength {
  if (lengths.kind === "constant") return () => lengths.tokens;
  if (lengths.kind === "lognormal")
    return (seed) => Math.min(MOST_TOKENS, logNormal(seed, lengths.meanTokens, lengths.sigma));
  if (traced === null) throw new Error("output lengths of a trace were not read");
  return (seed) => traced[Math.floor((mix(seed ^ LENGTH_SALT, 0) * traced.length) / 2 ** 32)]!;
}

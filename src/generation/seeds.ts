/** What decides an answer? The request's seed; under greedy decoding the prompt; else chance. */
import { greedySeed } from "../content/answers.ts";
import type { CommonRequest } from "../python/request.ts";
import { isGreedy } from "./sampling.ts";

/** 32 bits, for the first choice of a prompt. */
export function seedOf(
  { seed, temperature }: Pick<CommonRequest, "seed" | "temperature">,
  promptIds: Uint32Array,
  next: () => number,
): number {
  if (seed !== null) return fold(seed);
  return isGreedy(temperature) ? greedySeed(promptIds) : next();
}

/** The seeds of the choices of a prompt count on from its own. */
export function choiceSeed(seed: number, choice: number): number {
  return (seed + choice) >>> 0;
}

export function choiceSeeds(seed: number, n: number): number[] {
  return Array.from({ length: n }, (_, choice) => choiceSeed(seed, choice));
}

/** 32 of a seed's 64 bits, all of them mixed in. */
function fold(seed: number): number {
  return (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
}

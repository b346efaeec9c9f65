/** What decides an answer? The request's seed; under greedy decoding the prompt; else chance. */

import { byRuns, type Pieces } from "../../../base/pieces.ts";
import { greedySeed, mixedIn } from "../../../text/answers/answers.ts";
import type { CommonRequest } from "./request.ts";
import { isGreedy } from "./sampling.ts";

type Drawing = Pick<CommonRequest, "seed" | "temperature">;

/** All ids of the prompt go into it: where that is long, it takes its time. */
export const isByPrompt = ({ seed, temperature }: Drawing): boolean => seed === null && isGreedy(temperature);

/** 32 bits, for the first choice of a prompt. */
export function seedOf(drawing: Drawing, promptIds: Uint32Array, next: () => number): number {
  if (drawing.seed !== null) return fold(drawing.seed);
  return isByPrompt(drawing) ? greedySeed(promptIds) : next();
}

function* greedySeedPieces(promptIds: Uint32Array): Pieces<number> {
  let seed = promptIds.length;
  yield* byRuns(promptIds.length, (from, to) => {
    seed = mixedIn(seed, promptIds, from, to);
  });
  return seed;
}

/** Seeds of several prompts, which may be long. */
export function* seedPieces(drawing: Drawing, prompts: readonly Uint32Array[], next: () => number): Pieces<number[]> {
  const seeds: number[] = [];
  for (const ids of prompts)
    seeds.push(isByPrompt(drawing) ? yield* greedySeedPieces(ids) : seedOf(drawing, ids, next));
  return seeds;
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

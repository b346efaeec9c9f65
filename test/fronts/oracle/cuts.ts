/** Cuts the tokens of an answer into steps of the engine, in eight ways. */
import { STEP_IDS_MOST } from "../../../src/base/core-limits.ts";
import { seeded } from "../../../src/base/random.ts";
import { bytesOf } from "./vocabulary.ts";

/** The script of an answer, as an order has it. */
export interface CutScript {
  readonly sequences: readonly [{ readonly steps: readonly (readonly number[])[] }];
  readonly burst?: true;
  readonly logprobs: "ranked";
}

export const CUTS = ["1", "2", "3", "7", "most", "burst", "random", "inside"] as const;

/** Returns the script of each cut, in the order of `CUTS`. */
export function cutsOf(tokens: readonly number[], seed: number): CutScript[] {
  const random = seeded(seed ^ 0x5bd1e995);
  const plain = (sizeAt: (at: number) => number) => stepsOf(tokens, sizeAt);
  const steps = [
    ...[1, 2, 3, 7, STEP_IDS_MOST, 1].map((size) => plain(() => size)),
    plain(() => 1 + (random() % 6)),
    plain((at) => insideSize(tokens, at)),
  ];
  return steps.map((each, index) => ({
    sequences: [{ steps: each }],
    ...(CUTS[index] === "burst" ? { burst: true } : {}),
    logprobs: "ranked",
  }));
}

function stepsOf(tokens: readonly number[], sizeAt: (at: number) => number): number[][] {
  const steps: number[][] = [];
  for (let at = 0; at < tokens.length; at += steps.at(-1)!.length)
    steps.push(tokens.slice(at, at + Math.min(STEP_IDS_MOST, sizeAt(at))));
  return steps;
}

/** Returns a size so that the step ends after the first token of a code point that has several, if one comes. */
function insideSize(tokens: readonly number[], from: number): number {
  for (let at = from + 1; at < tokens.length; at++)
    if ((bytesOf(tokens[at]!)[0]! & 0xc0) === 0x80 && (bytesOf(tokens[at - 1]!).at(-1)! & 0xc0) !== 0x80)
      return at - from;
  return 1;
}

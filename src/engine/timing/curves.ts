/** Latencies that follow from a timing: time to first token by prompt length, and time between tokens by batch size. */

import type { Timing } from "../config/step-times.ts";
import { holdUs, stepUs } from "./timing.ts";

export interface FirstToken {
  readonly us: number;
  /** Part of `us` that passes before the queue. */
  readonly overheadUs: number;
  readonly steps: number;
}

/** Returns the time to first token of one uncached prompt on an idle engine, in steps of at most `budget` tokens. */
export function firstToken(timing: Timing, promptTokens: number, budget: number): FirstToken {
  const overheadUs = holdUs(timing);
  let us = overheadUs;
  let steps = 0;
  for (let prefix = 0; prefix < promptTokens; steps++) {
    const n = Math.min(budget, promptTokens - prefix);
    us += stepUs(timing, { promptTokens: n, prefix, pairs: n * (prefix + (n + 1) / 2), decodes: 0, context: 0 });
    prefix += n;
  }
  return { us, overheadUs, steps };
}

/** Returns the duration of a step in which `sequences` sequences decode, each with `contextEach` tokens of context. */
export function betweenTokensUs(timing: Timing, sequences: number, contextEach: number): number {
  const context = sequences * contextEach;
  return stepUs(timing, { promptTokens: 0, prefix: 0, pairs: 0, decodes: sequences, context });
}

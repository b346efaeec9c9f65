/** What does a timing mean for one who waits? Time to first token by prompt length, time between tokens by batch. */

import type { Timing } from "../config/step-times.ts";
import { holdUs, stepUs } from "./timing.ts";

export interface FirstToken {
  readonly us: number;
  /** Part of `us` that passes before the queue. */
  readonly overheadUs: number;
  readonly steps: number;
}

/** Time to first token of one prompt on an idle engine, in steps of at most `budget` tokens; nothing of it is cached. */
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

/** Duration of a step in which so many sequences decode, each of which attends to so many tokens. */
export function betweenTokensUs(timing: Timing, sequences: number, contextEach: number): number {
  const context = sequences * contextEach;
  return stepUs(timing, { promptTokens: 0, prefix: 0, pairs: 0, decodes: sequences, context });
}

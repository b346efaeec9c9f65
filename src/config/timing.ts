/** How long does a step take? The formula in plain TypeScript; the core computes the same from its running sums. */
import type { TableTiming } from "./profile.ts";
import type { Timing } from "./types.ts";

/** One step as sums over its requests; whole numbers. */
export interface StepLoad {
  /** New prompt tokens, P. */
  readonly promptTokens: number;
  /** Tokens of those prompts that were computed before this step, Σ prefix. */
  readonly prefix: number;
  /** Σ n·(prefix + (n+1)/2) over the prompts with n new tokens each. */
  readonly pairs: number;
  /** Sequences that decode one token, D. */
  readonly decodes: number;
  /** Tokens in the KV cache that those attend to, Σ context. */
  readonly context: number;
}

/** Whole microseconds, rounded once, half up. 0 for an empty step and for `none`, whose steps end when the loop gets there. */
export function stepUs(timing: Timing, load: StepLoad): number {
  if (load.promptTokens === 0 && load.decodes === 0) return 0;
  switch (timing.kind) {
    case "none":
      return 0;
    case "constant":
      return timing.itlUs;
    case "linear":
      return halfUp(timing.baseUs + timing.prefillUs * load.promptTokens + timing.decodeUs * load.decodes);
    case "table":
      return halfUp(tableUs(timing, load));
  }
}

function tableUs(timing: TableTiming, load: StepLoad): number {
  const { prefill, decode, sharedBase, scale, overheadUs } = timing;
  const mixed = load.promptTokens > 0 && load.decodes > 0;
  let us = interpolate(timing.linearTokens, timing.linearUs, load.promptTokens + load.decodes);
  if (load.promptTokens > 0) {
    us += prefill.baseUs + prefill.newUs * load.promptTokens + prefill.prefixUs * load.prefix;
    us += prefill.pairsUs * load.pairs;
  }
  if (load.decodes > 0) us += decode.baseUs + decode.seqUs * load.decodes + decode.ctxUs * load.context;
  if (mixed && sharedBase) us -= Math.min(prefill.baseUs, decode.baseUs);
  return scale * us + overheadUs;
}

/** Below the first point its value; above the last the slope of the last segment goes on. */
function interpolate(xs: readonly number[], ys: readonly number[], x: number): number {
  if (x <= xs[0]! || xs.length === 1) return ys[0]!;
  let right = xs.findIndex((at) => at >= x);
  if (right < 0) right = xs.length - 1;
  const [x0, x1, y0, y1] = [xs[right - 1]!, xs[right]!, ys[right - 1]!, ys[right]!];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

function halfUp(us: number): number {
  return Math.floor(us + 0.5);
}

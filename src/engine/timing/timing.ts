/** Computes the duration of a step with the formula in plain TypeScript. The core computes the same from running sums. */

import type { StepNoise, Timing } from "../config/step-times.ts";
import type { TableTiming } from "./profile.ts";

/** One step as sums over its requests. Whole numbers. */
export interface StepLoad {
  /** New prompt tokens, P. */
  readonly promptTokens: number;
  /** Tokens of those prompts that were computed in earlier steps, Σ prefix. */
  readonly prefix: number;
  /** Σ n·(prefix + (n+1)/2) over prompts with n new tokens each. */
  readonly pairs: number;
  /** Sequences that decode one token, D. */
  readonly decodes: number;
  /** KV cache tokens that these sequences attend to, Σ context. */
  readonly context: number;
}

/**
 * Returns whole microseconds, rounded once, half up, at least 1. Returns 0 for an empty step, and for `none`, whose
 * steps end when the loop reaches them.
 */
export function stepUs(timing: Timing, load: StepLoad): number {
  if (load.promptTokens === 0 && load.decodes === 0) return 0;
  switch (timing.kind) {
    case "none":
      return 0;
    case "constant":
      return whole(timing.itlUs);
    case "linear":
      return whole(timing.baseUs + timing.prefillUs * load.promptTokens + timing.decodeUs * load.decodes);
    case "table":
      return whole(tableUs(timing, load));
  }
}

/** Adds the terms in the core's order (`assembly/timing.ts`), so that both compute the same bits. */
function tableUs(timing: TableTiming, { promptTokens, prefix, pairs, decodes, context }: StepLoad): number {
  const { prefill, decode, sharedBase, scale, overheadUs } = timing;
  let us = interpolate(timing.linearTokens, timing.linearUs, promptTokens + decodes);
  let baseUs = 0;
  if (promptTokens > 0) {
    baseUs = prefill.baseUs;
    us += prefill.newUs * promptTokens + prefill.prefixUs * prefix + prefill.pairsUs * pairs;
  }
  if (decodes > 0) {
    baseUs = sharedBase ? Math.max(baseUs, decode.baseUs) : baseUs + decode.baseUs;
    us += decode.seqUs * decodes + decode.ctxUs * context;
  }
  return scale * (us + baseUs) + overheadUs;
}

/** Interpolates. Below the first point its value applies; above the last, the slope of the last segment continues. */
function interpolate(xs: readonly number[], ys: readonly number[], x: number): number {
  if (x <= xs[0]! || xs.length === 1) return ys[0]!;
  const left = Math.min(
    xs.findLastIndex((at) => at <= x),
    xs.length - 2,
  );
  const [x0, x1, y0, y1] = [xs[left]!, xs[left + 1]!, ys[left]!, ys[left + 1]!];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

function whole(us: number): number {
  return Math.max(1, Math.floor(us + 0.5));
}

/** Returns the time for which a request is held before the queue, which is not part of any step. Whole microseconds. */
export function holdUs(timing: Timing): number {
  if (timing.kind === "none") return 0;
  if (timing.kind === "constant") return Math.max(0, timing.ttftUs - timing.itlUs);
  return Math.floor((timing.requestOverheadUs ?? 0) + 0.5);
}

/** Returns the time for which an engine of this speed holds a request before the queue. Whole microseconds. */
export const heldUs = ({ timing, speed = 1 }: { readonly timing: Timing; readonly speed?: number }): number =>
  holdUs(faster(timing, speed));

/** Returns the timing of an engine that is `speed` times as fast. */
export function faster(timing: Timing, speed: number): Timing {
  if (speed === 1) return timing;
  switch (timing.kind) {
    case "none":
      return timing;
    case "constant":
      return { ...timing, ttftUs: Math.round(timing.ttftUs / speed), itlUs: Math.round(timing.itlUs / speed) };
    case "linear":
      return {
        ...timing,
        baseUs: timing.baseUs / speed,
        prefillUs: timing.prefillUs / speed,
        decodeUs: timing.decodeUs / speed,
        ...requestFaster(timing, speed),
      };
    case "table":
      return {
        ...timing,
        scale: timing.scale / speed,
        overheadUs: timing.overheadUs / speed,
        ...requestFaster(timing, speed),
      };
  }
}

function requestFaster({ requestOverheadUs }: { readonly requestOverheadUs?: number }, speed: number) {
  return requestOverheadUs === undefined ? {} : { requestOverheadUs: requestOverheadUs / speed };
}

/** Returns the noise of an engine that is `speed` times as fast. Times shrink; shares and factors stay. */
export function noiseFaster({ pause, ...noise }: StepNoise, speed: number): StepNoise {
  if (pause === undefined) return noise;
  const everyUs = Math.max(1, Math.round(pause.everyUs / speed));
  return { ...noise, pause: { everyUs, forUs: Math.round(pause.forUs / speed) } };
}

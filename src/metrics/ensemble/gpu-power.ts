/**
 * Power of the GPUs of the presets. The limits are from the makers' data sheets (SXM modules; cards for L40S and the
 * RTX class). Idle and working power are invented in proportion, as docs/reference/triton-metrics.md says.
 */
const LIMITS: Readonly<Record<string, number>> = { a100: 400, h100: 700, h200: 700, b200: 1000, l40s: 350 };
/** Power limit of a GPU that is not listed, in watts. */
const OTHER_WATTS = 400;
/** Shares of the limit. */
const IDLE = 0.1;
const AT_WORK = 0.85;

/** Returns watts of one GPU: its limit, its idle power, and its power while it computes. */
export function wattsOf(gpu: string): { readonly limit: number; readonly idle: number; readonly atWork: number } {
  const limit = LIMITS[gpu] ?? OTHER_WATTS;
  return { limit, idle: Math.round(limit * IDLE), atWork: Math.round(limit * AT_WORK) };
}

/**
 * What does a GPU of a preset draw? Limits are the makers' data sheets (SXM modules; L40S and RTX class: the card);
 * what it draws idle and at work is made up in proportion and said to be so in docs/triton-metrics.md.
 */
const LIMITS: Readonly<Record<string, number>> = { a100: 400, h100: 700, h200: 700, b200: 1000, l40s: 350 };
/** Power of a GPU that is not listed. */
const OTHER_WATTS = 400;
/** Shares of the limit. */
const IDLE = 0.1;
const AT_WORK = 0.85;

/** Watts of one GPU: its limit, idle, and while it computes. */
export function wattsOf(gpu: string): { readonly limit: number; readonly idle: number; readonly atWork: number } {
  const limit = LIMITS[gpu] ?? OTHER_WATTS;
  return { limit, idle: Math.round(limit * IDLE), atWork: Math.round(limit * AT_WORK) };
}

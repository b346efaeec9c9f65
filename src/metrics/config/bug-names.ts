/** Names of the bug modes. */

/** Documented defects of other versions and servers, which `--bug` reproduces; see `metrics/bugs/`. */
export const BUG_NAMES = [
  "stuck-kv-usage",
  "stuck-requests",
  "recomputed-hits",
  "repeated-first-tokens",
  "negative-delta",
  "ensemble-pending",
  "failures-succeed",
  "gauge-total",
  "counter-gauge",
  "stale-gauges",
  "open-leak",
  "worker-saw-tooth",
  "duplicate-series",
  "fraction-blocks",
] as const;
export type BugName = (typeof BUG_NAMES)[number];

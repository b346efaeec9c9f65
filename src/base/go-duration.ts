/** Parses Go durations such as `100ms`, `1m30s` and `1.5h`. */

const UNITS_US: Readonly<Record<string, number>> = {
  ns: 0.001,
  us: 1,
  µs: 1,
  ms: 1000,
  s: 1e6,
  m: 60e6,
  h: 3600e6,
};

/**
 * Parses a duration like Go's `time.ParseDuration`, but without signs and the bare `0`. Returns microseconds, or undefined for
 * other texts.
 */
export function goDurationUs(text: string): number | undefined {
  const parts = [...text.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map(([whole]) => whole).join("") !== text) return undefined;
  return Number(parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * UNITS_US[unit!]!, 0).toFixed(6));
}

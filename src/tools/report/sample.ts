/** Which of very many are shown? So many at most, whatever there is: a page stays below a megabyte. */

/** Points of a line, dots of a scatter, bars of the waterfall, marks in it. */
export const LINE_POINTS = 600;
export const DOTS = 2000;
export const BARS = 160;
export const OUTLIERS = 4000;

/** Places 0 to `count` − 1, at most `most` of them (2 or more), evenly spaced, the first and the last among them. */
export function evenly(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, at) => at);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

/**
 * Places as `evenly` chooses them, and in place of the last few those with the greatest values, so that no outlier goes
 * unseen; rising.
 */
export function evenlyWithGreatest(values: ArrayLike<number>, most: number): number[] {
  if (values.length <= most) return evenly(values.length, most);
  const greatest = Math.ceil(most / 10);
  const byValue = Uint32Array.from({ length: values.length }, (_, at) => at).sort((a, b) => values[b]! - values[a]!);
  const chosen = new Set([...evenly(values.length, most - greatest), ...byValue.subarray(0, greatest)]);
  return [...chosen].sort((a, b) => a - b);
}

/** "1 request", "all 12 requests", "2,000 of 10,000 requests". */
export function shareOf(shown: number, all: number, what: string): string {
  const number = (count: number) => count.toLocaleString("en-US");
  if (all === 1) return `1 ${what.replace(/s$/, "")}`;
  return shown === all ? `all ${number(all)} ${what}` : `${number(shown)} of ${number(all)} ${what}`;
}

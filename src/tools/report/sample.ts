/** Chooses which of many values a page shows, so that it stays below a megabyte. */

/** Maximum numbers of points of a line, dots of a scatter plot, rows of the timeline, and marks in it. */
export const LINE_POINTS = 600;
export const DOTS = 2000;
export const BARS = 160;
export const OUTLIERS = 4000;

/** Returns up to `most` (at least 2) evenly spaced indices from 0 to `count` − 1, always including the first and the last. */
export function evenly(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, at) => at);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

/** Returns indices like `evenly`, but a tenth of them are those of the largest values, so that no outlier is lost. They rise. */
export function evenlyWithGreatest(values: ArrayLike<number>, most: number): number[] {
  if (values.length <= most) return evenly(values.length, most);
  const greatest = Math.ceil(most / 10);
  const byValue = Uint32Array.from({ length: values.length }, (_, at) => at).sort((a, b) => values[b]! - values[a]!);
  const chosen = new Set([...evenly(values.length, most - greatest), ...byValue.subarray(0, greatest)]);
  return [...chosen].sort((a, b) => a - b);
}

/** Prints a number of shown items: "1 request", "all 12 requests", "2,000 of 10,000 requests". */
export function shareOf(shown: number, all: number, what: string): string {
  const number = (count: number) => count.toLocaleString("en-US");
  if (all === 1) return `1 ${what.replace(/s$/, "")}`;
  return shown === all ? `all ${number(all)} ${what}` : `${number(shown)} of ${number(all)} ${what}`;
}

/** Formats numbers for axes and legends. */
import type { Axis } from "../plot.ts";

/** Width of a digit on an axis, in pixels. */
export const DIGIT_PX = 7;
/**
 * Padding at top, right, bottom, left. The right side has room for half of the last tick's label, which may be as long as
 * 1,000,000.
 */
export const PADDING: [number, number, number, number] = [10, 32, 0, 0];

/** Prints at most four digits with thousands separators. "" if there is no value. */
export function plotNumber(value: number | null | undefined, axis?: Axis): string {
  if (value === null || value === undefined) return "";
  if (axis?.percent) return `${rounded(value * 100)} %`;
  return rounded(value);
}

function rounded(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 1000 || size === 0 ? 0 : Math.max(0, 3 - Math.floor(Math.log10(size)) - 1);
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 6) });
}

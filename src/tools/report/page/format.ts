/** How are numbers shown on axes and in legends? */
import type { Axis } from "../plot.ts";

/** How wide a digit of an axis is; pixels. */
export const DIGIT_PX = 7;
/** Top, right, bottom, left: to the right half of a label under the last tick, as long as 1,000,000. */
export const PADDING: [number, number, number, number] = [10, 32, 0, 0];

/** Four digits at most, thousands apart; nothing where there is none. */
export function shown(value: number | null | undefined, axis?: Axis): string {
  if (value === null || value === undefined) return "";
  if (axis?.percent) return `${trimmed(value * 100)} %`;
  return trimmed(value);
}

function trimmed(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 1000 || size === 0 ? 0 : Math.max(0, 3 - Math.floor(Math.log10(size)) - 1);
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 6) });
}

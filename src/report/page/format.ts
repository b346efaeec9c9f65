/** How are numbers shown on axes and in legends? */
import type { Axis } from "../plot.ts";

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

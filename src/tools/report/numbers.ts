/** Prints numbers for readers. */

/** Prints four significant digits with thousands separators. "–" if there is no value. */
export function fourDigits(value: unknown): string {
  if (typeof value !== "number" || !Number.isFinite(value))
    return value === undefined || value === null ? "–" : `${value}`;
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 10_000) return Math.round(value).toLocaleString("en-US");
  const digits = size >= 1 ? Math.max(0, 3 - Math.floor(Math.log10(size))) : 4;
  return value.toLocaleString("en-US", { minimumFractionDigits: Math.min(2, digits), maximumFractionDigits: digits });
}

export const percentShown = (share: number): string => `${fourDigits(Math.round(share * 10_000) / 100)} %`;

/** Prints milliseconds as a number and its unit, which is s for long times. */
export function timeShown(ms: unknown): readonly [number: string, unit: string] {
  if (!isNumber(ms)) return ["–", ""];
  return Math.abs(ms) >= 10_000 ? [rounded(ms / 1000), "s"] : [rounded(ms), "ms"];
}

/** Prints about three significant digits. */
export function rounded(value: number): string {
  const size = Math.abs(value);
  return value.toLocaleString("en-US", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}

export const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** Rounds to five digits, for data that is only drawn. Null if the value is not a number. */
export function drawable(value: number | null | undefined): number | null {
  return isNumber(value) ? Number(value.toPrecision(5)) : null;
}

/** Parses and prints numbers of bytes with units. */

const UNITS: Readonly<Record<string, number>> = {
  ...{ B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 },
  ...{ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 },
};
const MOST_BYTES = 2 ** 50;

/** Describes the accepted sizes. Completes a sentence that begins "takes …". */
export const SIZE_FORMS = "a size with its unit, as 80GiB or 512MB, at most 1024TiB";

/**
 * Returns the bytes, or undefined if the text is not a size. A number without a unit is rejected, because 80 could mean bytes,
 * MB or GB.
 */
export function sizeIn(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)$/.exec(text.trim()) ?? [];
  if (unit === "") return undefined;
  const bytes = Math.round(Number(digits) * UNITS[unit]!);
  return bytes <= MOST_BYTES ? bytes : undefined;
}

/** Prints bytes as `14.96 GiB`: two decimal places, in the largest unit in which the value is at least 1. */
export function sizeText(bytes: number): string {
  const unit = ["TiB", "GiB", "MiB", "KiB"].find((candidate) => bytes >= UNITS[candidate]!);
  return unit === undefined ? `${bytes} B` : `${(bytes / UNITS[unit]!).toFixed(2)} ${unit}`;
}

/** How many bytes does a text mean, and how is a number of bytes said? */

const UNITS: Readonly<Record<string, number>> = {
  ...{ B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 },
  ...{ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 },
};
const MOST_BYTES = 2 ** 50;

/** Ends the sentence "takes …". */
export const SIZE_FORMS = "a size with its unit, as 80GiB or 512MB, at most 1024TiB";

/** Bytes; a bare number is refused: whoever writes 80 means one of three things. */
export function sizeIn(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)$/.exec(text.trim()) ?? [];
  if (unit === "") return undefined;
  const bytes = Math.round(Number(digits) * UNITS[unit]!);
  return bytes <= MOST_BYTES ? bytes : undefined;
}

/** `14.96 GiB`: two places, in the largest unit of which there is one. */
export function sizeText(bytes: number): string {
  const unit = ["TiB", "GiB", "MiB", "KiB"].find((one) => bytes >= UNITS[one]!);
  return unit === undefined ? `${bytes} B` : `${(bytes / UNITS[unit]!).toFixed(2)} ${unit}`;
}

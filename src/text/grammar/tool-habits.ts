/** Reads preferences for the arguments of tool calls, for values that the schema leaves open. */

/** Preferences for arguments. An absent member means the usual draw. */
export interface ToolHabits {
  /** Least and largest whole number. */
  readonly integers?: readonly [number, number];
  /** Least and largest of other numbers. */
  readonly numbers?: readonly [number, number];
  /** Least and most items of an array. */
  readonly items?: readonly [number, number];
  /** Share of the calls that have an optional argument, 0 to 1. */
  readonly optional?: number;
  /** Share of the objects inside arguments that have an optional member, 0 to 1. */
  readonly inner?: number;
  /** Share of the calls after which another call follows, as long as there are tools. */
  readonly another?: number;
}

const RANGES = ["integers", "numbers", "items"] as const;
const SHARES = ["optional", "inner", "another"] as const;
const NUMBER = /^-?\d+(\.\d+)?$/;
/** Largest number of items that can be set. */
const ITEMS_MOST = 100;

/** Reads `NAME=VALUE,…`. Returns undefined if the text is invalid. */
export function parseToolHabits(text: string): ToolHabits | undefined {
  const found: Record<string, number | readonly [number, number]> = {};
  for (const part of text.split(",")) {
    const [name = "", value = "", ...more] = part.split("=");
    const read = more.length > 0 || name in found ? undefined : readHabit(name, value);
    if (read === undefined) return undefined;
    found[name] = read;
  }
  return found;
}

function readHabit(name: string, text: string): number | readonly [number, number] | undefined {
  const parts = text.split(":");
  if (!parts.every((part) => NUMBER.test(part))) return undefined;
  const [from = 0, to = 0] = parts.map(Number);
  if (SHARES.some((share) => share === name)) return parts.length === 1 && from >= 0 && from <= 1 ? from : undefined;
  if (!RANGES.some((range) => range === name) || parts.length !== 2 || from > to) return undefined;
  if (name !== "numbers" && !(Number.isSafeInteger(from) && Number.isSafeInteger(to))) return undefined;
  return name === "items" && (from < 0 || to > ITEMS_MOST) ? undefined : [from, to];
}

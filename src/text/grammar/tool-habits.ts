/** What do models like to call their tools with, where a schema leaves it open? */

export interface ToolHabits {
  /** Bounds of numbers, both ends included. */
  readonly integers?: readonly [number, number];
  readonly numbers?: readonly [number, number];
  /** Items of an array. */
  readonly items?: readonly [number, number];
  /** Share of the calls that have an argument which is not required; the same of objects inside. */
  readonly optional?: number;
  readonly inner?: number;
  /** Share of the calls after which another follows, as long as there are tools. */
  readonly another?: number;
}

const RANGES = ["integers", "numbers", "items"] as const;
const SHARES = ["optional", "inner", "another"] as const;
const NUMBER = /^-?\d+(\.\d+)?$/;
/** An array of more is no argument. */
const ITEMS_MOST = 100;

/** Undefined: it is none. */
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

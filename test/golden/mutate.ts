/** Changes one compared value of a trace, chosen by a seed. A comparison that does not notice the change is broken. */
import { comparedKeys } from "./compare.ts";
import type { Recording } from "./recording.ts";

/** Keys of a row that are instructions, not results. Changing them would change the input of the run. */
const INSTRUCTIONS = new Set(["t", "r", "running", "state", "it", "begin", "end"]);
/** Instructions in rows without a kind, which is the second format. */
const LOG_INSTRUCTIONS = new Set(["s", "abort"]);

/** Changes `recording` in place and returns a description of the change. */
export function mutate({ rows }: Recording, seed: number): string {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  const draw = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const keysOf = (index: number) => {
    const row = rows[index]!;
    const instructions = "t" in row ? INSTRUCTIONS : LOG_INSTRUCTIONS;
    return comparedKeys(row).filter((key) => !instructions.has(key));
  };
  const candidates = rows.flatMap((_, index) => (keysOf(index).length > 0 ? [index] : []));
  if (candidates.length === 0) throw new Error("no row has a value to change");
  const index = candidates[draw(candidates.length)]!;
  const row = rows[index]!;
  const keys = keysOf(index);
  const key = keys[draw(keys.length)]!;
  const before = JSON.stringify(row[key]);
  row[key] = changed(row[key], draw);
  return `row ${index}${"t" in row ? ` (${row.t})` : ""}, ${key}: ${before} -> ${JSON.stringify(row[key])}`;
}

function changed(value: unknown, draw: (n: number) => number): unknown {
  if (typeof value === "number") return Number.isInteger(value) ? value + 1 + draw(3) : value + 0.125;
  if (typeof value === "boolean") return !value;
  if (typeof value === "string") return `${value}?`;
  if (Array.isArray(value)) {
    if (!value.length) return [1];
    const at = draw(value.length);
    return value.map((item, i) => (i === at ? changed(item, draw) : item));
  }
  return 1;
}

/** How is an answer to go, as its request's body says beside what is sampled? */

import { BrokenScript, readOrder } from "../../../text/canned/script.ts";
import { type Int, type PythonValue, toPlain } from "../../pydantic/value.ts";
import type { CommonRequest, Repetition } from "./request.ts";

/** `exact`: the value comes from the exact parser. */
export function orderOf(given: PythonValue, exact: boolean): CommonRequest["order"] {
  if (given === null) return null;
  try {
    return readOrder(exact ? toPlain(given) : given);
  } catch (error) {
    if (error instanceof BrokenScript) return { broken: error.message };
    throw error;
  }
}

/** null: nothing is looked for. */
export function repetitionOf(given: ReadonlyMap<string, unknown> | null, least: Int): Repetition | null {
  if (given === null) return null;
  const size = (name: string) => Number(given.get(name) ?? 0);
  const [maxPattern, minPattern, minCount] = [size("max_pattern_size"), size("min_pattern_size"), size("min_count")];
  return maxPattern === 0 || minCount < 2 ? null : { maxPattern, minPattern, minCount, minTokens: Number(least) };
}

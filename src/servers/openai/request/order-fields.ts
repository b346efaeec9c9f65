/** Reads the fields of a body that order how the answer goes or ends: `understudy` and `repetition_detection`. */

import { resultOrError } from "../../../base/result-or-error.ts";
import { BrokenScript, readOrder } from "../../../text/canned/script.ts";
import { type Int, type PythonValue, toPlain } from "../../pydantic/value.ts";
import type { CommonRequest, Repetition } from "./request.ts";

/** Reads the field `understudy`. `exact`: the value comes from the exact parser. */
export function orderOf(value: PythonValue, exact: boolean): CommonRequest["order"] {
  const order = resultOrError(BrokenScript, () => readOrder(exact ? toPlain(value) : value));
  return order instanceof BrokenScript ? { broken: order.message } : order;
}

/** Reads `repetition_detection`. `least`: fewest output tokens. Returns null if it looks for nothing. */
export function repetitionOf(fields: ReadonlyMap<string, unknown>, least: Int): Repetition | null {
  const size = (name: string) => Number(fields.get(name) ?? 0);
  const [maxPattern, minPattern, minCount] = [size("max_pattern_size"), size("min_pattern_size"), size("min_count")];
  return maxPattern === 0 || minCount < 2 ? null : { maxPattern, minPattern, minCount, minTokens: Number(least) };
}

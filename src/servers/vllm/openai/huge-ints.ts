/** Which ints of a request are too large for what vLLM sends to its engine? */
import { ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import { type Int, isDict, isList, isSmall, PythonFloat, type PythonValue } from "../../pydantic/value.ts";

export const isHuge = (value: Int | null, exact: boolean) => typeof value === "bigint" && hasHugeInt(value, exact);
export const holdsHuge = (args: unknown, exact: boolean) => args !== null && hasHugeInt(args as PythonValue, exact);

/** As `holdsHuge` of one of them, in pieces. */
export function* anyHolds(list: readonly unknown[], exact: boolean): Pieces<boolean> {
  for (const args of list) if (args !== null && (yield* hugePieces(args as PythonValue, exact))) return true;
  return false;
}

function* hugePieces(value: PythonValue, exact: boolean): Pieces<boolean> {
  if (isSmall(value) || (!isList(value) && !isDict(value))) return hasHugeInt(value, exact);
  let seen = 0;
  for (const item of isList(value) ? value : value instanceof Map ? value.values() : Object.values(value)) {
    if (isSmall(item) ? hasHugeInt(item, exact) : yield* hugePieces(item, exact)) return true;
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  return false;
}

/** Thrown where the fast translation cannot be sure of the bytes: the exact parser then decides. */
class Ambiguous {}

/** An int that MessagePack cannot carry. */
function hasHugeInt(value: PythonValue, exact: boolean): boolean {
  if (typeof value === "bigint") return value < -(2n ** 63n) || value >= 2n ** 64n;
  if (typeof value === "number") {
    // The exact parser gives such a number for a float alone; the fast one cannot say whether it was an int.
    if (!exact && Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Ambiguous();
    return false;
  }
  if (isList(value)) return value.some((item) => hasHugeInt(item, exact));
  if (value instanceof PythonFloat || !isDict(value)) return false;
  return (value instanceof Map ? [...value.values()] : Object.values(value)).some((item) => hasHugeInt(item, exact));
}

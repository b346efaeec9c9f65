/**
 * JSON values as Python distinguishes them, and Python's operations on them. Values of two parsers fit: `JSON.parse` returns
 * plain objects and numbers. The exact parser keeps the key order, integers of any size, and floats with a whole value.
 */

import { ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";

/** A Python float. The exact parser makes one of each number with a fraction or an exponent. */
export class PythonFloat {
  constructor(readonly value: number) {}
}

export type PlainDict = { [key: string]: PythonValue };
export type PythonDict = Map<string, PythonValue> | PlainDict;
export type PythonValue = null | boolean | number | bigint | string | PythonFloat | readonly PythonValue[] | PythonDict;

/** A Python int: a number up to 2^53, a bigint beyond, so that error texts quote it exactly. */
export type Int = number | bigint;

export function isDict(value: PythonValue | undefined): value is PythonDict {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof PythonFloat);
}

export function isList(value: PythonValue | undefined): value is readonly PythonValue[] {
  return Array.isArray(value);
}

/** Limits of a small value: the values in it at any depth, and the UTF-16 units of a text. */
const SMALL_VALUES = 16;
const SMALL_TEXT = 4096;

/** Reports whether the value is so small that work on it cannot delay a step noticeably. */
export function isSmall(value: PythonValue): boolean {
  return budgetLeft(value, SMALL_VALUES) >= 0;
}

/** Returns `most` minus the number of values in `value`, including itself. Negative if there are more, or if a text is long. */
function budgetLeft(value: PythonValue, most: number): number {
  let rest = most - 1;
  if (typeof value === "string") return value.length <= SMALL_TEXT ? rest : -1;
  if (isList(value)) {
    if (value.length > rest) return -1;
    for (let i = 0; i < value.length && rest >= 0; i++) rest = budgetLeft(value[i]!, rest);
  } else if (value instanceof Map) {
    if (value.size > rest) return -1;
    for (const item of value.values()) rest = rest < 0 ? rest : budgetLeft(item, rest);
  } else if (isDict(value)) {
    for (const key in value) {
      rest = budgetLeft(value[key]!, rest);
      if (rest < 0) break;
    }
  }
  return rest;
}

/** Like Python's `dict.get`. Returns undefined if the key is absent. */
export function get(dict: PythonDict, key: string): PythonValue | undefined {
  return dict instanceof Map ? dict.get(key) : dict[key];
}

export function set(dict: PythonDict, key: string, value: PythonValue): void {
  if (dict instanceof Map) dict.set(key, value);
  else dict[key] = value;
}

/** Sets an own property of any name, also `__proto__`. */
export function setOwn(plain: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") plain[key] = value;
  else Object.defineProperty(plain, key, { value, enumerable: true, configurable: true, writable: true });
}

export function remove(dict: PythonDict, key: string): void {
  if (dict instanceof Map) dict.delete(key);
  else delete dict[key];
}

export function keysOf(dict: PythonDict): string[] {
  return dict instanceof Map ? [...dict.keys()] : Object.keys(dict);
}

export function sizeOf(dict: PythonDict): number {
  return dict instanceof Map ? dict.size : Object.keys(dict).length;
}

/** Returns a number if the int is a safe integer, else the bigint. */
export function toInt(value: bigint): Int {
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

/** Returns the numeric value if Python's `isinstance(value, (int, float))` is true, as for a bool too, else undefined. */
export function numberOf(value: PythonValue | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "boolean" || typeof value === "bigint") return Number(value);
  return value instanceof PythonFloat ? value.value : undefined;
}

/** Returns Python's `bool(value)`. An absent key (undefined) is false. */
export function truthy(value: PythonValue | undefined): boolean {
  if (value === undefined || value === null || value === "") return false;
  const number = numberOf(value);
  if (number !== undefined) return number !== 0;
  if (isList(value)) return value.length > 0;
  return isDict(value) ? sizeOf(value) > 0 : true;
}

/** Returns Python's `type(value).__name__`. */
export function typeName(value: PythonValue): string {
  if (value === null) return "NoneType";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (value instanceof PythonFloat) return "float";
  if (typeof value === "number") return Number.isInteger(value) ? "int" : "float";
  if (typeof value === "bigint") return "int";
  return isList(value) ? "list" : "dict";
}

/**
 * Returns the items of Python's `for x in value`: of a list, the characters of a text, or the keys of a dict. Returns undefined
 * if Python raises `not iterable`. Characters are not put into a list, because a text may have megabytes.
 */
export function iterate(value: PythonValue): Iterable<PythonValue> | undefined {
  if (isList(value) || typeof value === "string") return value;
  return isDict(value) ? keysOf(value) : undefined;
}

/** Converts to ordinary JavaScript values, for example of tools and tool calls. Ints beyond 2^53 lose precision. */
export function toPlain(value: PythonValue): unknown {
  if (value instanceof PythonFloat) return value.value;
  if (typeof value === "bigint") return Number(value);
  if (isList(value)) return value.map(toPlain);
  if (!(value instanceof Map)) return value;
  const plain: Record<string, unknown> = {};
  for (const [key, item] of value) setOwn(plain, key, toPlain(item));
  return plain;
}

/** Like `toPlain`, in pieces. */
export function* toPlainPieces(value: PythonValue): Pieces<unknown> {
  if (isSmall(value)) return toPlain(value);
  if (isList(value)) {
    const list: unknown[] = [];
    for (const item of value) {
      list.push(yield* toPlainPieces(item));
      if (list.length % ITEMS_OF_A_PIECE === 0) yield;
    }
    return list;
  }
  if (!(value instanceof Map)) return toPlain(value);
  const plain: Record<string, unknown> = {};
  let seen = 0;
  for (const [key, item] of value) {
    setOwn(plain, key, yield* toPlainPieces(item));
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  return plain;
}

/** Returns the number of code points, which is Python's `len(str)`. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdbff) continue;
    const next = text.charCodeAt(i + 1);
    if (next >= 0xdc00 && next <= 0xdfff) {
      count--;
      i++;
    }
  }
  return count;
}

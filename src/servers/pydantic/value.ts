/**
 * How does a JSON value look to Python? One model for two parsers: `JSON.parse` gives plain objects and numbers, the exact
 * parser gives what Python distinguishes as well: key order, integers of any size, floats with a whole value.
 */

import { ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";

/** A float whose Python type matters; the exact parser makes one for every number with a fraction or an exponent. */
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

/** A small value has so many values in it at most, at any depth, and no long text. */
const SMALL_VALUES = 16;
const SMALL_TEXT = 4096;

/** Is work on it too short to be seen in a step's lateness? */
export function isSmall(value: PythonValue): boolean {
  return left(value, SMALL_VALUES) >= 0;
}

/** What is left of so many values when it and those in it are counted; negative: they are more. */
function left(value: PythonValue, most: number): number {
  let rest = most - 1;
  if (typeof value === "string") return value.length <= SMALL_TEXT ? rest : -1;
  if (isList(value)) {
    if (value.length > rest) return -1;
    for (let i = 0; i < value.length && rest >= 0; i++) rest = left(value[i]!, rest);
  } else if (value instanceof Map) {
    if (value.size > rest) return -1;
    for (const one of value.values()) rest = rest < 0 ? rest : left(one, rest);
  } else if (isDict(value)) {
    for (const key in value) {
      rest = left(value[key]!, rest);
      if (rest < 0) break;
    }
  }
  return rest;
}

/** Python's `dict.get`: undefined when the key is absent. */
export function get(dict: PythonDict, key: string): PythonValue | undefined {
  return dict instanceof Map ? dict.get(key) : dict[key];
}

export function set(dict: PythonDict, key: string, value: PythonValue): void {
  if (dict instanceof Map) dict.set(key, value);
  else dict[key] = value;
}

/** Sets a property of the object's own, whatever its name: `__proto__` too. */
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

/** The smallest form of an int: a number when it is safe. */
export function toInt(value: bigint): Int {
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

/** The value of an int, float or bool for comparisons, as `isinstance(value, (int, float))` sees it; else undefined. */
export function numberOf(value: PythonValue | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "boolean" || typeof value === "bigint") return Number(value);
  return value instanceof PythonFloat ? value.value : undefined;
}

/** `bool(value)`; an absent key is false. */
export function truthy(value: PythonValue | undefined): boolean {
  if (value === undefined || value === null || value === "") return false;
  const number = numberOf(value);
  if (number !== undefined) return number !== 0;
  if (isList(value)) return value.length > 0;
  return isDict(value) ? sizeOf(value) > 0 : true;
}

/** `type(value).__name__`. */
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
 * Returns what `for x in value` walks over (a dict gives its keys), or undefined when Python would raise `not iterable`. A text
 * walks over its characters, and there is no list of them: it may have megabytes.
 */
export function iterate(value: PythonValue): Iterable<PythonValue> | undefined {
  if (isList(value) || typeof value === "string") return value;
  return isDict(value) ? keysOf(value) : undefined;
}

/** Ordinary JavaScript values, for what is handed on (tools, tool calls). Ints beyond 2^53 lose precision. */
export function toPlain(value: PythonValue): unknown {
  if (value instanceof PythonFloat) return value.value;
  if (typeof value === "bigint") return Number(value);
  if (isList(value)) return value.map(toPlain);
  if (!(value instanceof Map)) return value;
  const plain: Record<string, unknown> = {};
  for (const [key, item] of value) setOwn(plain, key, toPlain(item));
  return plain;
}

/** As `toPlain`, in pieces. */
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

/** Number of code points, Python's `len(str)`. */
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

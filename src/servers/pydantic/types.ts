/**
 * Does a value fit a type, and what does pydantic say when it does not? The scalar and container types of the field
 * tables, with pydantic's lax coercions and error texts (pydantic 2.14, pydantic-core `src/validators`, `src/input`).
 */

import { atOnce, ITEMS_OF_A_PIECE, type Pieces } from "../../base/pieces.ts";
import {
  get,
  type Int,
  isDict,
  isList,
  isSmall,
  keysOf,
  type PythonDict,
  PythonFloat,
  type PythonValue,
  toInt,
} from "./value.ts";

/** One entry of `ValidationError.errors()`; locations leave out pydantic's own labels, which vLLM drops from its texts. */
export interface LineError {
  readonly type: string;
  readonly loc: (string | number)[];
  readonly message: string;
  readonly input: PythonValue;
  readonly context?: Readonly<Record<string, PythonValue>>;
  /** The text of a `ValueError` that a validator raised. */
  readonly raised?: string;
}

/** The answer of a check that failed; the errors, if they are collected, stand in the state. */
export const FAIL = Symbol("does not fit");
export type Checked<V> = V | typeof FAIL;

/** Errors that are kept; the others are counted. vLLM shows ten, and all of a part of content: at most some dozens. */
export const ERRORS_KEPT = 1024;

/** What a check reports besides its value. */
export class State {
  /** Null on the fast path: nobody reads the errors, a failure starts the exact path. */
  readonly errors: LineError[] | null;
  /** All of them, those that are not kept included. */
  count = 0;
  /** Known fields set so far, or -1 when no object was met: how pydantic ranks the members of a union. */
  fields = -1;
  /** False once a value was coerced; the second criterion of a union. */
  exact = true;

  constructor(collect: boolean) {
    this.errors = collect ? [] : null;
  }

  fail(type: string, message: string, input: PythonValue, context?: Record<string, PythonValue>): typeof FAIL {
    if (this.errors !== null && this.count++ < ERRORS_KEPT)
      this.errors.push(context ? { type, loc: [], message, input, context } : { type, loc: [], message, input });
    return FAIL;
  }

  /** A validator of a model's own raises `ValueError(text)`. */
  raise(text: string, input: PythonValue): typeof FAIL {
    if (this.errors !== null && this.count++ < ERRORS_KEPT)
      this.errors.push({ type: "value_error", loc: [], message: `Value error, ${text}`, input, raised: text });
    return FAIL;
  }

  /** Puts `segment` in front of the location of every error since `from`. */
  prefix(from: number, segment: string | number): void {
    if (this.errors === null) return;
    for (let i = from; i < this.errors.length; i++) this.errors[i]!.loc.unshift(segment);
  }

  /** Forgets all but the first so many errors. */
  cut(count: number): void {
    this.count = count;
    if (this.errors !== null && this.errors.length > count) this.errors.length = count;
  }
}

/** A JSON Schema (2020-12); bounds may be bigints. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface Type<V> {
  /** How the docs name it. */
  readonly name: string;
  /** What the OpenAPI page shows: what is taken without a coercion. */
  readonly schema: JsonSchema;
  check(value: PythonValue, state: State): Checked<V>;
  /** Checks in pieces; absent: `check` never takes long. */
  pieces?(value: PythonValue, state: State): Pieces<Checked<V>>;
}

export const text: Type<string> = {
  name: "string",
  schema: { type: "string" },
  check: (value, state) =>
    typeof value === "string" ? value : state.fail("string_type", "Input should be a valid string", value),
};

export const anything: Type<PythonValue> = { name: "any", schema: {}, check: (value) => value };

/** `bytes` read from JSON: any text. */
export const bytes: Type<string> = {
  name: "base64 text",
  schema: { type: "string", format: "binary" },
  check: (value, state) =>
    typeof value === "string" ? value : state.fail("bytes_type", "Input should be a valid bytes", value),
};

const TRUE = new Set(["1", "t", "y", "on", "yes", "true"]);
const FALSE = new Set(["0", "f", "n", "no", "off", "false"]);

export const bool: Type<boolean> = {
  name: "boolean",
  schema: { type: "boolean" },
  check(value, state) {
    if (typeof value === "boolean") return value;
    state.exact = false;
    if (typeof value === "string") {
      const word = value.toLowerCase();
      if (TRUE.has(word)) return true;
      if (FALSE.has(word)) return false;
      return state.fail("bool_parsing", "Input should be a valid boolean, unable to interpret input", value);
    }
    const number = value instanceof PythonFloat ? value.value : value;
    if (number === 0) return false;
    if (number === 1) return true;
    if (typeof number === "number" && Number.isInteger(number) && Math.abs(number) < 2 ** 63)
      return state.fail("bool_parsing", "Input should be a valid boolean, unable to interpret input", value);
    if (typeof number === "bigint" && BigInt.asIntN(64, number) === number)
      return state.fail("bool_parsing", "Input should be a valid boolean, unable to interpret input", value);
    return state.fail("bool_type", "Input should be a valid boolean", value);
  },
};

/** `float`. Ints beyond the range of a double are refused, NaN and infinities pass. */
export const float: Type<number> = {
  name: "number",
  schema: { type: "number" },
  check(value, state) {
    if (value instanceof PythonFloat) return value.value;
    if (typeof value === "number") {
      // 1e999 is infinity to Python, a long int is refused: only the exact parser tells them apart. It makes no such
      // numbers itself: then the value is one that another dialect has read, "inf" or "nan".
      if (Number.isFinite(value) || Number.isNaN(value) || state.errors !== null) return value;
      return FAIL;
    }
    state.exact = false;
    if (typeof value === "boolean") return value ? 1 : 0;
    if (typeof value === "string") {
      const number = parseFloatText(value);
      return (
        number ??
        state.fail("float_parsing", "Input should be a valid number, unable to parse string as a number", value)
      );
    }
    if (typeof value === "bigint" && Number.isFinite(Number(value))) return Number(value);
    return state.fail("float_type", "Input should be a valid number", value);
  },
};

const FLOAT_TEXT = /^[+-]?(?:inf(?:inity)?|nan|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)$/i;

/** Rust's `f64::from_str` on the trimmed text, then once more without single underscores between characters. */
function parseFloatText(value: string): number | null {
  let candidate = value.trim();
  if (!FLOAT_TEXT.test(candidate)) {
    if (!value.includes("_") || value.startsWith("_") || value.endsWith("_") || value.includes("__")) return null;
    candidate = value.replaceAll("_", "");
    if (!FLOAT_TEXT.test(candidate)) return null;
  }
  const lower = candidate.toLowerCase();
  if (lower.includes("nan")) return Number.NaN;
  if (lower.includes("inf")) return lower.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(candidate);
}

const INT_TEXT = /^[+-]?([0-9]+(?:_[0-9]+)*)(?:\.0+)?$/;
const MAX_INT_DIGITS = 4300;

/** `int`, with pydantic's `ge` and `le`. */
export function int(limits: { readonly ge?: Int; readonly le?: Int } = {}): Type<Int> {
  const { ge, le } = limits;
  const bounds = [ge === undefined ? "" : ` ≥ ${ge}`, le === undefined ? "" : ` ≤ ${le}`].join("");
  return {
    name: `integer${bounds}`,
    schema: {
      type: "integer",
      ...(ge === undefined ? {} : { minimum: ge }),
      ...(le === undefined ? {} : { maximum: le }),
    },
    check(value, state) {
      const number = typeof value === "number" && Number.isSafeInteger(value) ? value : coerceInt(value, state);
      if (number === FAIL) return FAIL;
      if (ge !== undefined && number < ge)
        return state.fail("greater_than_equal", `Input should be greater than or equal to ${ge}`, value, { ge });
      if (le !== undefined && number > le)
        return state.fail("less_than_equal", `Input should be less than or equal to ${le}`, value, { le });
      return number;
    },
  };
}

function coerceInt(value: PythonValue, state: State): Checked<Int> {
  if (typeof value === "bigint") return value;
  state.exact = false;
  if (typeof value === "boolean") return value ? 1 : 0;
  // A plain number here has a fraction or is too large to be exact: the exact parser decides.
  if (typeof value === "number") return FAIL;
  if (typeof value === "string") {
    const digits = INT_TEXT.exec(value.trim())?.[1];
    if (digits === undefined)
      return state.fail("int_parsing", "Input should be a valid integer, unable to parse string as an integer", value);
    if (digits.length > MAX_INT_DIGITS)
      return state.fail("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", value);
    const size = BigInt(digits.replaceAll("_", ""));
    return toInt(value.trim().startsWith("-") ? -size : size);
  }
  if (value instanceof PythonFloat) {
    const number = value.value;
    if (!Number.isFinite(number)) return state.fail("finite_number", "Input should be a finite number", value);
    if (!Number.isInteger(number))
      return state.fail(
        "int_from_float",
        "Input should be a valid integer, got a number with a fractional part",
        value,
      );
    if (Math.abs(number) >= 2 ** 63)
      return state.fail("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", value);
    return toInt(BigInt(number));
  }
  return state.fail("int_type", "Input should be a valid integer", value);
}

/** `'a', 'b' or 'c'`. */
function expected(words: readonly string[]): string {
  const quoted = words.map((word) => `'${word}'`);
  const last = quoted.pop() as string;
  return quoted.length > 0 ? `${quoted.join(", ")} or ${last}` : last;
}

/** One of some texts; `error` is pydantic's name for what is none of them. */
function oneOf<W extends string>(words: readonly W[], error: "literal_error" | "enum"): Type<W> {
  const list = expected(words);
  return {
    name: list,
    schema: { type: "string", enum: words },
    check: (value, state) =>
      words.includes(value as W)
        ? (value as W)
        : state.fail(error, `Input should be ${list}`, value, { expected: list }),
  };
}

export const literal = <W extends string>(...words: W[]): Type<W> => oneOf(words, "literal_error");

/** A Python `Enum` of texts. */
export const enumeration = (...words: string[]): Type<string> => oneOf(words, "enum");

/** The members of a union, or the one type. */
export function alternatives(schema: JsonSchema): readonly JsonSchema[] {
  return (schema.anyOf as readonly JsonSchema[] | undefined) ?? [schema];
}

export function nullable<V>(type: Type<V>): Type<V | null> {
  return {
    name: `${type.name}, null`,
    schema: { anyOf: [...alternatives(type.schema), { type: "null" }] },
    check: (value, state) => (value === null ? null : type.check(value, state)),
    ...(type.pieces && {
      *pieces(value: PythonValue, state: State) {
        return value === null ? null : yield* type.pieces!(value, state);
      },
    }),
  };
}

export function list<V>(item: Type<V>, maxLength = Number.POSITIVE_INFINITY): Type<V[]> {
  return {
    name: `list of ${item.name}${maxLength === Number.POSITIVE_INFINITY ? "" : `, at most ${maxLength}`}`,
    schema: {
      type: "array",
      items: item.schema,
      ...(maxLength === Number.POSITIVE_INFINITY ? {} : { maxItems: maxLength }),
    },
    check(value, state) {
      if (state.errors !== null || !isList(value) || value.length > maxLength)
        return atOnce(this.pieces!(value, state));
      // Nearly every request comes this way. What is itself when checked, as ids are, needs no second list.
      let items: V[] | null = null;
      for (let i = 0; i < value.length; i++) {
        const one = value[i] as PythonValue;
        const checked = item.check(one, state);
        if (checked === FAIL) return FAIL;
        if (items === null && checked !== one) items = value.slice(0, i) as V[];
        if (items !== null) items[i] = checked;
      }
      return items ?? (value as V[]);
    },
    *pieces(value, state) {
      if (!isList(value)) return state.fail("list_type", "Input should be a valid list", value);
      if (value.length > maxLength) {
        const message = `List should have at most ${maxLength} item${maxLength === 1 ? "" : "s"} after validation, not ${value.length}`;
        return state.fail("too_long", message, value, {
          field_type: "List",
          max_length: maxLength,
          actual_length: value.length,
        });
      }
      const items = new Array<V>(value.length);
      let failed = false;
      for (let i = 0; i < value.length; i++) {
        if ((i + 1) % ITEMS_OF_A_PIECE === 0) yield;
        const before = state.count;
        const one = value[i] as PythonValue;
        // A generator for each of a hundred thousand small ones would be most of the garbage.
        const checked =
          item.pieces === undefined || isSmall(one) ? item.check(one, state) : yield* item.pieces(one, state);
        if (checked !== FAIL) items[i] = checked;
        else if (state.errors === null) return FAIL;
        else {
          failed = true;
          state.prefix(before, i);
        }
      }
      return failed ? FAIL : items;
    },
  };
}

/** `dict[str, V]`; the order of the keys is the request's. */
export function dict<V>(item: Type<V>): Type<Map<string, V>> {
  return {
    name: `object of ${item.name}`,
    schema: { type: "object", additionalProperties: item.schema },
    check(value, state) {
      return atOnce(this.pieces!(value, state));
    },
    *pieces(value, state) {
      if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
      // A dictionary whose values stay as they are is not copied: it may have millions of members.
      let items: Map<unknown, unknown> | null = value instanceof Map ? null : new Map();
      let failed = false;
      let seen = 0;
      for (const key of keysOf(value)) {
        if (++seen % ITEMS_OF_A_PIECE === 0) yield;
        const before = state.count;
        const given = get(value, key) as PythonValue;
        const checked = item.check(given, state);
        if (checked === FAIL) failed = true;
        else if (items !== null) items.set(key, checked);
        else if (!Object.is(checked, given))
          items = new Map(value as Map<string, PythonValue>).set(key, checked as never);
        state.prefix(before, key);
      }
      return failed ? FAIL : ((items ?? value) as Map<string, V>);
    },
  };
}

/** `dict[str, Any]`: taken as it is. */
export const object: Type<PythonDict> = {
  name: "object",
  schema: { type: "object", additionalProperties: true },
  check: (value, state) =>
    isDict(value) ? value : state.fail("dict_type", "Input should be a valid dictionary", value),
};

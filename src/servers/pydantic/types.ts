/**
 * The scalar and container types of the field tables. They check and coerce values like pydantic in lax mode, with the same
 * error texts. Source: pydantic 2.14, pydantic-core `src/validators` and `src/input`.
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

/** One entry of `ValidationError.errors()`. Locations lack pydantic's own labels, which vLLM removes from its texts. */
export interface LineError {
  readonly type: string;
  readonly loc: (string | number)[];
  readonly message: string;
  readonly input: PythonValue;
  readonly context?: Readonly<Record<string, PythonValue>>;
  /** The text of a `ValueError` that a validator raised. Absent for other errors. */
  readonly raised?: string;
}

/** Result of a check that failed. The errors are in the state, if it collects them. */
export const FAIL = Symbol("does not fit");
/** Result of a check: the value, coerced if necessary, or `FAIL`. */
export type CheckResult<V> = V | typeof FAIL;

/** Errors that are kept. Later ones are only counted: vLLM reports ten, or all errors of one content part, some dozens. */
export const ERRORS_KEPT = 1024;

/** The errors of a check, and the numbers by which a union ranks its branches. */
export class State {
  /** The errors so far. Null on the fast path, which does not collect them. */
  readonly errors: LineError[] | null;
  /** Number of errors, including those that were not kept. 0 on the fast path. */
  count = 0;
  /** Number of known fields that are set, or -1 if no object was checked. First criterion of a union. */
  fields = -1;
  /** False if a value was coerced. Second criterion of a union. */
  exact = true;

  constructor(collect: boolean) {
    this.errors = collect ? [] : null;
  }

  /** Adds an error. Returns `FAIL`. */
  fail(type: string, message: string, input: PythonValue, context?: Record<string, PythonValue>): typeof FAIL {
    if (this.errors !== null && this.count++ < ERRORS_KEPT)
      this.errors.push(context ? { type, loc: [], message, input, context } : { type, loc: [], message, input });
    return FAIL;
  }

  /** Adds the error of a model's own validator that raises `ValueError(text)`. Returns `FAIL`. */
  raise(text: string, input: PythonValue): typeof FAIL {
    if (this.errors !== null && this.count++ < ERRORS_KEPT)
      this.errors.push({ type: "value_error", loc: [], message: `Value error, ${text}`, input, raised: text });
    return FAIL;
  }

  /** Puts `segment` before the location of each error from index `from`. */
  prefix(from: number, segment: string | number): void {
    if (this.errors === null) return;
    for (let i = from; i < this.errors.length; i++) this.errors[i]!.loc.unshift(segment);
  }

  /** Drops all errors except the first `count`. */
  cut(count: number): void {
    this.count = count;
    if (this.errors !== null && this.errors.length > count) this.errors.length = count;
  }
}

/** A JSON Schema (2020-12). Bounds of integers may be bigints. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A type that checks values of a body, with its description for the docs. */
export interface Type<V> {
  /** Name of the type in the docs. */
  readonly name: string;
  /** Schema for the OpenAPI document. It describes the values that are accepted without a coercion. */
  readonly schema: JsonSchema;
  /** Returns the value, coerced if necessary, or `FAIL` after adding errors to the state. */
  check(value: PythonValue, state: State): CheckResult<V>;
  /** Like `check`, in pieces. Absent if `check` never takes long. */
  pieces?(value: PythonValue, state: State): Pieces<CheckResult<V>>;
}

export const text: Type<string> = {
  name: "string",
  schema: { type: "string" },
  check: (value, state) =>
    typeof value === "string" ? value : state.fail("string_type", "Input should be a valid string", value),
};

export const anything: Type<PythonValue> = { name: "any", schema: {}, check: (value) => value };

/** Python's `bytes`. In JSON any text is accepted. */
export const bytes: Type<string> = {
  name: "base64 text",
  schema: { type: "string", format: "binary" },
  check: (value, state) =>
    typeof value === "string" ? value : state.fail("bytes_type", "Input should be a valid bytes", value),
};

const TRUE = new Set<unknown>(["1", "t", "y", "on", "yes", "true"]);
const FALSE = new Set<unknown>(["0", "f", "n", "no", "off", "false"]);

export const bool: Type<boolean> = {
  name: "boolean",
  schema: { type: "boolean" },
  check(value, state) {
    if (typeof value === "boolean") return value;
    state.exact = false;
    const word = typeof value === "string" ? value.toLowerCase() : value instanceof PythonFloat ? value.value : value;
    if (word === 1 || TRUE.has(word)) return true;
    if (word === 0 || FALSE.has(word)) return false;
    const isParsed =
      typeof word === "string" ||
      (typeof word === "number" && Number.isInteger(word) && Math.abs(word) < 2 ** 63) ||
      (typeof word === "bigint" && BigInt.asIntN(64, word) === word);
    if (isParsed)
      return state.fail("bool_parsing", "Input should be a valid boolean, unable to interpret input", value);
    return state.fail("bool_type", "Input should be a valid boolean", value);
  },
};

/** Python's `float`. Refuses ints beyond the range of a double, accepts NaN and infinities. */
export const float: Type<number> = {
  name: "number",
  schema: { type: "number" },
  check(value, state) {
    if (value instanceof PythonFloat) return value.value;
    if (typeof value === "number") {
      // Here infinity is 1e999, which Python accepts, or a long int, which it refuses. Only the exact parser tells them
      // apart. On the exact path such a number was "inf" or "nan" in a body that another API has read.
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

/** Parses like Rust's `f64::from_str` after trimming. Allows single underscores inside. Returns null if it is no number. */
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

/** Python's `int`, with the bounds `ge` (at least) and `le` (at most). */
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

function coerceInt(value: PythonValue, state: State): CheckResult<Int> {
  if (typeof value === "bigint") return value;
  state.exact = false;
  if (typeof value === "boolean") return value ? 1 : 0;
  // A plain number here has a fraction or is too large to be exact, so the exact parser must decide.
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

/** Returns the words as pydantic lists them: `'a', 'b' or 'c'`. */
function expected(words: readonly string[]): string {
  const quoted = words.map((word) => `'${word}'`);
  const last = quoted.pop() as string;
  return quoted.length > 0 ? `${quoted.join(", ")} or ${last}` : last;
}

/** One of the words. `error`: pydantic's error type for any other value. */
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

/** A Python `Enum` whose values are texts. */
export const enumeration = (...words: string[]): Type<string> => oneOf(words, "enum");

/** Returns the schemas of a union, or the schema itself if it is not a union. */
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

/** Python's `list`, of at most `maxLength` items. */
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
      // The fast path of most requests. Items that need no coercion, such as token IDs, are not copied.
      let items: V[] | null = null;
      for (let i = 0; i < value.length; i++) {
        const element = value[i] as PythonValue;
        const checked = item.check(element, state);
        if (checked === FAIL) return FAIL;
        if (items === null && checked !== element) items = value.slice(0, i) as V[];
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
        const element = value[i] as PythonValue;
        // A generator for each of a hundred thousand small items would be most of the garbage.
        const checked =
          item.pieces === undefined || isSmall(element)
            ? item.check(element, state)
            : yield* item.pieces(element, state);
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

/** Python's `dict[str, V]`. Keeps the order of the keys. */
export function dict<V>(item: Type<V>): Type<Map<string, V>> {
  return {
    name: `object of ${item.name}`,
    schema: { type: "object", additionalProperties: item.schema },
    check(value, state) {
      return atOnce(this.pieces!(value, state));
    },
    *pieces(value, state) {
      if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
      // A map is copied only if a value is coerced, because it may have millions of members.
      let items: Map<unknown, unknown> | null = value instanceof Map ? null : new Map();
      let failed = false;
      let seen = 0;
      for (const key of keysOf(value)) {
        if (++seen % ITEMS_OF_A_PIECE === 0) yield;
        const before = state.count;
        const member = get(value, key) as PythonValue;
        const checked = item.check(member, state);
        if (checked === FAIL) failed = true;
        else if (items !== null) items.set(key, checked);
        else if (!Object.is(checked, member))
          items = new Map(value as Map<string, PythonValue>).set(key, checked as never);
        state.prefix(before, key);
      }
      return failed ? FAIL : ((items ?? value) as Map<string, V>);
    },
  };
}

/** Python's `dict[str, Any]`. The result is the value itself. */
export const object: Type<PythonDict> = {
  name: "object",
  schema: { type: "object", additionalProperties: true },
  check: (value, state) =>
    isDict(value) ? value : state.fail("dict_type", "Input should be a valid dictionary", value),
};

// Types that are usual in tables of fields.
export const textOrNull = nullable(text);
export const boolOrNull = nullable(bool);
export const floatOrNull = nullable(float);
export const intOrNull = nullable(int());
export const tokenIds = nullable(list(int()));

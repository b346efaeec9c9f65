/** Checks a body against a table of fields. Writes pydantic's errors as vLLM 0.33 reports them. */

import { atOnce, type Pieces } from "../../base/pieces.ts";
import { type ErrorAnswer, errorAnswer } from "./refusals.ts";
import { repr, str } from "./repr.ts";
import { FAIL, type LineError, State, type Type } from "./types.ts";
import { codePoints, get, isDict, isList, type PlainDict, type PythonValue, sizeOf, typeName } from "./value.ts";

/** One field of a request. */
export interface Field<V> {
  readonly type: Type<V>;
  /** Value if the body lacks the field. Absent for a required field. */
  readonly default?: V;
}
/** The fields of one kind of request, by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>;
/** The checked values of all fields. */
export type Values<F> = { readonly [K in keyof F]: F[K] extends Field<infer V> ? V : never };

/** Returns a field with a default. */
export const field = <V>(type: Type<V>, value: V): Field<V> => ({ type, default: value });

/** Checks bodies of one kind. The defaults are the prototype of all values, so absent fields cost nothing. */
export interface Validator<F extends Fields> {
  /** Returns the values, or `FAIL` without a reason. Throws `RefusedRequest` if vLLM raises an error directly. */
  fast(body: PythonValue): Values<F> | typeof FAIL;
  /** Returns the values or the error with status 400. The body is from the exact parser. Throws `RefusedRequest` like `fast`. */
  exact(body: PythonValue): Values<F> | { readonly error: ErrorAnswer };
  /** Like `exact` or `fast`, in pieces, for large bodies. Never loops over the body's keys, of which there may be a million. */
  pieces(body: PythonValue, exact: boolean): Pieces<Values<F> | typeof FAIL | { readonly error: ErrorAnswer }>;
}

/** Makes the validator of a table. `answerFor` makes the answer from the first errors and the number of all errors. */
export function validator<F extends Fields>(
  fields: F,
  answerFor: (errors: readonly LineError[], count: number) => ErrorAnswer = validationErrors,
): Validator<F> {
  const names = Object.keys(fields);
  const byName = new Map(Object.entries(fields));
  const defaults: Record<string, unknown> = {};
  for (const name of names) defaults[name] = fields[name]?.default;
  const needed = names.filter((name) => !("default" in (fields[name] as object)));
  const isWhole = (body: PythonValue): body is PlainDict =>
    isDict(body) && !(body instanceof Map) && needed.every((name) => body[name] !== undefined);
  function fast(body: PythonValue): Values<F> | typeof FAIL {
    if (!isWhole(body)) return FAIL;
    const state = new State(false);
    const values: Record<string, unknown> = Object.create(defaults);
    for (const name in body) {
      const checked = byName.get(name)?.type.check(body[name]!, state);
      if (checked === FAIL) return FAIL;
      if (checked !== undefined) values[name] = checked;
    }
    return values as Values<F>;
  }
  function* fastPieces(body: PythonValue): Pieces<Values<F> | typeof FAIL> {
    if (!isWhole(body)) return FAIL;
    const state = new State(false);
    const values: Record<string, unknown> = Object.create(defaults);
    // Loops over the fields, not over the body's keys, because there may be a million keys.
    for (const name of names) {
      const value = body[name];
      if (value === undefined) continue;
      const { type } = fields[name]!;
      const checked = type.pieces ? yield* type.pieces(value, state) : type.check(value, state);
      if (checked === FAIL) return FAIL;
      values[name] = checked;
    }
    return values as Values<F>;
  }
  function* exactPieces(body: PythonValue): Pieces<Values<F> | { readonly error: ErrorAnswer }> {
    const state = new State(true);
    const values: Record<string, unknown> = Object.create(defaults);
    if (!isDict(body)) {
      const message = "Input should be a valid dictionary or object to extract fields from";
      state.fail("model_attributes_type", message, body);
    } else
      for (const name of names) {
        const field = fields[name] as Fields[string];
        const value = get(body, name);
        const before = state.count;
        if (value !== undefined)
          values[name] =
            field.type.pieces === undefined ? field.type.check(value, state) : yield* field.type.pieces(value, state);
        else if (!("default" in field)) state.fail("missing", "Field required", body);
        state.prefix(before, name);
      }
    if (state.count === 0) return values as Values<F>;
    state.prefix(0, "body");
    return { error: answerFor(state.errors!, state.count) };
  }
  return {
    fast,
    exact: (body) => atOnce(exactPieces(body)),
    pieces: (body, exact) => (exact ? exactPieces(body) : fastPieces(body)),
  };
}

/** Entries that vLLM reports. Source of the three limits: `handlers/validation.py`. */
const MAX_REPORTED = 10;
/** Characters of an input, and of a whole entry, that vLLM reports. */
const MAX_INPUT_CHARACTERS = 200;
const MAX_ENTRY_CHARACTERS = 1000;

/** Returns the error with status 400 that lists the first of `count` errors. Its `param` is the location of the first. */
export function validationErrors(errors: readonly LineError[], count = errors.length): ErrorAnswer {
  const label = count === 1 ? "error" : "errors";
  const lines = errors.slice(0, MAX_REPORTED).map((error) => `  ${entry(error)}`);
  if (count > MAX_REPORTED) lines.push(`  ...and ${count - MAX_REPORTED} more ${label}`);
  const message = `${count} validation ${label}:\n${lines.join("\n")}`;
  return errorAnswer(message, "Bad Request", place((errors[0] as LineError).loc), 400);
}

function entry(error: LineError): string {
  const shown = new Map<string, PythonValue>([
    ["type", error.type],
    ["loc", place(error.loc)],
    ["msg", beginning(error.message)],
    ["input", inputSummary(error.input)],
  ]);
  if (error.context !== undefined) shown.set("ctx", new Map(Object.entries(error.context)));
  const text = repr(shown);
  if (error.raised === undefined) return cut(text, MAX_ENTRY_CHARACTERS);
  const raised = repr(beginning(error.raised));
  return cut(`${text.slice(0, -1)}, 'ctx': {'error': ValueError(${raised})}}`, MAX_ENTRY_CHARACTERS);
}

/**
 * Shortens a text that is too long for an entry, because writing it would copy megabytes. Appends the kinds of quotes in the
 * text, because they decide which quotes `repr` puts around it.
 */
function beginning(text: string): string {
  if (text.length <= 2 * MAX_ENTRY_CHARACTERS) return text;
  const quotes = ["'", '"'].filter((quote) => text.includes(quote));
  return text.slice(0, 2 * MAX_ENTRY_CHARACTERS) + quotes.join("");
}

/** Returns vLLM's summary of an input: the length of a list or dictionary, or the beginning of another value. */
export function inputSummary(value: PythonValue): string {
  if (isList(value)) return `<list of ${value.length} items>`;
  if (isDict(value)) return `<dict of ${sizeOf(value)} items>`;
  return cut(str(value), MAX_INPUT_CHARACTERS);
}

function cut(text: string, limit: number): string {
  // A text of more than twice as many units has more characters than the limit, so they need not be counted.
  if (text.length <= limit || (text.length <= 2 * limit && codePoints(text) <= limit)) return text;
  return `${[...text.slice(0, 2 * limit)].slice(0, limit).join("")}...[truncated]`;
}

/** Labels of pydantic, which vLLM removes from locations, even if they are a key in the body. */
const INTERNAL = new Set(
  (
    "function-wrap function-after function-before function-plain json-or-python lax-or-strict chain default nullable " +
    "tagged-union union call arguments is-instance is-subclass callable str int float bool bytes bytearray list tuple dict " +
    "set frozenset complex none nonetype"
  ).split(" "),
);

function place(loc: readonly (string | number)[]): string {
  return loc
    .filter((part) => typeof part === "number" || !(/[[\]{}()]/.test(part) || INTERNAL.has(part.toLowerCase())))
    .join(".");
}

const DOCUMENTATION = "https://errors.pydantic.dev/2.14/v/";
const MAX_QUOTED_BYTES = 50;

/** Returns pydantic's `str(ValidationError)` for item `index` of a lazily checked list: a content part that fits no type. */
export function iteratorErrors(errors: readonly LineError[], index: number): string {
  // Quoted once per input, because each branch of a union refuses the same input, which may have megabytes.
  const texts = new Map<PythonValue, string>();
  const lines = errors.map((error) => {
    const input = texts.get(error.input) ?? quoted(repr(error.input));
    texts.set(error.input, input);
    const detail = `[type=${error.type}, input_value=${input}, input_type=${typeName(error.input)}]`;
    return `${[index, ...error.loc].join(".")}\n  ${error.message} ${detail}\n    For further information visit ${DOCUMENTATION}${error.type}`;
  });
  return `${errors.length} validation error${errors.length === 1 ? "" : "s"} for ValidatorIterator\n${lines.join("\n")}`;
}

/** pydantic's `write_truncated_to_limited_bytes`: keeps only both ends of a text of more than 50 bytes. */
function quoted(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MAX_QUOTED_BYTES) return text;
  let head = MAX_QUOTED_BYTES / 2;
  let tail = bytes.length - (MAX_QUOTED_BYTES / 2 - 1);
  while (((bytes[head] as number) & 0xc0) === 0x80) head--;
  while (tail < bytes.length && ((bytes[tail] as number) & 0xc0) === 0x80) tail++;
  return `${bytes.toString("utf8", 0, head)}...${bytes.toString("utf8", tail)}`;
}

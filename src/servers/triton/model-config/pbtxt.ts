/**
 * Parses `config.pbtxt`: protobuf's text format (`text_format.cc`), checked against the fields in `schema.ts`. Accepts lists
 * with and without brackets, `{ }` and `< >`, maps as entries, adjacent strings and comments. Errors use protobuf's wording.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { type ConfigField, enums, fieldNamed, INTEGER_RANGES, messages } from "./schema.ts";

/** A parsed message. Contains only fields that are set; lists are arrays and maps are objects. */
export interface ConfigMessage {
  readonly [field: string]: Value | undefined;
}
export type Value = string | number | boolean | ConfigMessage | readonly Value[];
type Mutable = { [field: string]: Value | undefined };

/** A syntax error: `LINE:COLUMN: WHY`. Lines and columns count from 1. */
export class PbtxtError extends Error {
  override readonly name = "PbtxtError";
}

interface Token {
  readonly kind: "word" | "number" | "string" | "sign" | "end";
  readonly text: string;
  readonly at: number;
}

const DEPTH_MOST = 100;
/** Number of fields or list items parsed between two yields. */
const VALUES_OF_A_PIECE = 64;
const BLANK = /(?:\s|#[^\n]*)*/y;
const WORD = /[A-Za-z_]\w*/y;
const NUMBER = /[\d.][\w.]*(?:(?<=[eE])[+-]\d+)?/y;
const STRING = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
/** Returns the kind of token that starts with this character. */
function kindOf(character: string): Exclude<Token["kind"], "end"> {
  if (/[A-Za-z_]/.test(character)) return "word";
  if (/[\d.]/.test(character)) return "number";
  return character === '"' || character === "'" ? "string" : "sign";
}
const KINDS = Array.from({ length: 128 }, (_, code) => kindOf(String.fromCharCode(code)));
const PATTERNS = { word: WORD, number: NUMBER, string: STRING };

/** Matches `pattern` at `from`. Returns the end offset, or -1. */
function endOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

class Reader {
  #token: Token;
  /** Offset at which the current token ends. */
  #at = 0;
  #values = 0;

  /** `later`: accepts fields newer than 2.51. */
  constructor(
    private readonly text: string,
    private readonly later: boolean,
  ) {
    this.#token = this.#read();
  }

  *message(type: string, close: string, depth = 0): Pieces<ConfigMessage> {
    if (depth > DEPTH_MOST) this.#fail("Message is too deep, the parser exceeded the configured recursion limit");
    const made: Mutable = {};
    while (this.#token.text !== close || (close === "" && this.#token.kind !== "end")) {
      if (this.#token.kind === "end") this.#fail(`Expected identifier, got: ${this.#token.text}`);
      yield* this.#field(type, made, depth);
    }
    this.#next();
    return made;
  }

  *#field(type: string, into: Mutable, depth: number): Pieces<void> {
    if (++this.#values % VALUES_OF_A_PIECE === 0) yield;
    const { text, at } = this.#expect("word", "identifier");
    const field = fieldNamed(type, text);
    if (field === undefined || (field.later && !this.later))
      this.#fail(`Message type "inference.${type}" has no field named "${text}".`, at);
    const isMessage = field.keys !== null || messages.has(field.type);
    if (!this.#take(":") && !isMessage) this.#fail(`Expected ":", found "${this.#token.text}".`);
    const list = field.repeated || field.keys !== null;
    if (!list && into[field.name] !== undefined)
      this.#fail(`Non-repeated field "${text}" is specified multiple times.`, at);
    const conflicting =
      field.choice &&
      messages.get(type)!.find((member) => member.choice === field.choice && into[member.name] !== undefined);
    if (conflicting)
      this.#fail(
        `Field "${text}" is specified along with field "${conflicting.name}", another member of oneof "${field.choice}".`,
        at,
      );
    if (list && this.#take("[")) {
      this.#add(field, into, null);
      if (this.#take("]")) return;
      for (;;) {
        if (++this.#values % VALUES_OF_A_PIECE === 0) yield;
        this.#add(field, into, yield* this.#value(field, depth));
        if (this.#take("]")) break;
        if (!this.#take(",")) this.#fail(`Expected ",", found "${this.#token.text}".`);
      }
    } else {
      const value = isMessage ? yield* this.#value(field, depth) : this.#single(field.type, field.name);
      if (list) this.#add(field, into, value);
      else into[field.name] = value;
    }
    if (!this.#take(",")) this.#take(";");
  }

  /** Appends a value to a list or a map. Null only creates the empty list or map. */
  #add({ name, keys }: ConfigField, into: Mutable, value: Value | null): void {
    into[name] ??= keys === null ? [] : {};
    if (value === null) return;
    if (keys === null) (into[name] as Value[]).push(value);
    else Object.assign(into[name] as Mutable, value);
  }

  *#value({ keys, type, name }: ConfigField, depth: number): Pieces<Value> {
    if (keys !== null) return yield* this.#entry(keys, type, depth);
    if (messages.has(type)) return yield* this.message(type, this.#opened(), depth + 1);
    return this.#single(type, name);
  }

  /** Reads an enumeration value or a scalar. */
  #single(type: string, name: string): Value {
    const values = enums.get(type);
    const { kind, text, at } = this.#token;
    if (values !== undefined) {
      const value = kind === "number" ? values[Number(text)] : text;
      if (kind !== "word" && kind !== "number") this.#fail(`Expected integer or identifier, got: ${text}`);
      if (value === undefined || !values.includes(value))
        this.#fail(`Unknown enumeration value of "${text}" for field "${name}".`, at);
      this.#next();
      return value;
    }
    return type === "string" ? this.#strings() : this.#scalar(type, name);
  }

  /** Reads an opening bracket. Returns the closing bracket. */
  #opened(): string {
    if (this.#take("{")) return "}";
    return this.#take("<") ? ">" : this.#fail(`Expected "{", found "${this.#token.text}".`);
  }

  /** Reads `{ key: … value: … }` as an object with one member. */
  *#entry(keys: string, type: string, depth: number): Pieces<ConfigMessage> {
    const close = this.#opened();
    let key = keys === "string" ? "" : "0";
    let value: Value = messages.has(type) ? {} : "";
    while (!this.#take(close)) {
      const { text, at } = this.#expect("word", "identifier");
      if (text !== "key" && text !== "value")
        this.#fail(`Message type "inference.Entry" has no field named "${text}".`, at);
      this.#take(":");
      if (text === "key") key = String(this.#single(keys, text));
      else value = messages.has(type) ? yield* this.message(type, this.#opened(), depth + 2) : this.#single(type, text);
      if (!this.#take(",")) this.#take(";");
    }
    return { [key]: value };
  }

  #scalar(type: string, name: string): Value {
    const negative = this.#take("-");
    const { kind, text, at } = this.#token;
    if (type === "bool") {
      const value = { true: true, t: true, True: true, "1": true, false: false, f: false, False: false, "0": false }[
        text
      ];
      if (value === undefined) this.#fail(`Invalid value for boolean field "${name}". Value: "${text}".`, at);
      this.#next();
      return value;
    }
    const real = type === "float" || type === "double";
    if (real && kind === "word" && /^(inf(inity)?|nan)$/i.test(text)) {
      this.#next();
      return /^n/i.test(text) ? Number.NaN : negative ? -Infinity : Infinity;
    }
    if (kind !== "number") this.#fail(`Expected ${real ? "double" : "integer"}, got: ${text}`);
    const value = Number(text.replace(/[fF]$/, (f) => (/^0x/i.test(text) ? f : ""))) * (negative ? -1 : 1);
    if (Number.isNaN(value) || (!real && !Number.isInteger(value))) this.#fail(`Expected integer, got: ${text}`, at);
    const [least, most] = INTEGER_RANGES[type] ?? [-Infinity, Infinity];
    if (value < least || value > most) this.#fail(`Integer out of range (${text})`, at);
    this.#next();
    return value;
  }

  /** Reads adjacent string literals as one string. */
  #strings(): string {
    if (this.#token.kind !== "string") this.#fail(`Expected string, got: ${this.#token.text}`);
    let whole = "";
    for (; this.#token.kind === "string"; this.#next()) whole += unescaped(this.#token.text.slice(1, -1));
    return whole;
  }

  #expect(kind: Token["kind"], what: string): Token {
    const token = this.#token;
    if (token.kind !== kind) this.#fail(`Expected ${what}, got: ${token.text}`);
    this.#next();
    return token;
  }

  #take(text: string): boolean {
    if (this.#token.kind !== "sign" || this.#token.text !== text) return false;
    this.#next();
    return true;
  }

  #next(): void {
    this.#token = this.#read();
  }

  #read(): Token {
    const all = this.text;
    const at = endOf(BLANK, all, this.#at);
    if (at === all.length) return { kind: "end", text: "", at };
    const kind = KINDS[all.charCodeAt(at)] ?? "sign";
    const end = kind === "sign" ? at + 1 : endOf(PATTERNS[kind], all, at);
    if (end < 0) this.#fail("String literals cannot cross line boundaries.", at);
    this.#at = end;
    return { kind, text: all.slice(at, end), at };
  }

  #fail(why: string, at: number = this.#token?.at ?? 0): never {
    const before = this.text.slice(0, at).split("\n");
    throw new PbtxtError(`${before.length}:${before.at(-1)!.length + 1}: ${why}`);
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", a: "\x07", b: "\b", f: "\f", v: "\v" };

function unescaped(text: string): string {
  return text.replaceAll(/\\(?:([0-7]{1,3})|x([\da-fA-F]{1,2})|u([\da-fA-F]{4})|(.))/g, (_, octal, hex, unit, one) => {
    if (one !== undefined) return ESCAPES[one] ?? one;
    return String.fromCodePoint(Number.parseInt(octal ?? hex ?? unit, octal !== undefined ? 8 : 16));
  });
}

/**
 * Parses a message of `type` in pieces, so that a large text does not block other requests. `later`: accepts fields newer than
 * 2.51. Throws a `PbtxtError`.
 */
export const pbtxtInPieces = (text: string, type: string, later: boolean): Pieces<ConfigMessage> =>
  new Reader(text, later).message(type, "");

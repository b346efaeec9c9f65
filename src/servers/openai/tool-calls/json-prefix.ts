/**
 * Reads the beginning of a JSON text. Closes open lists, objects and strings, and leaves out values that cannot be completed.
 * Behaves like the PyPI package `partial_json_parser` 0.2, which vLLM's parser for Llama 3 uses.
 */
import { PythonJsonError, PythonJsonFailure, parsePython } from "../../pydantic/json.ts";
import { isList, type PythonValue } from "../../pydantic/value.ts";

/** Thrown if no continuation of the text can be JSON. */
export class MalformedJson {}

/** The result of reading an incomplete JSON text. */
export interface JsonPrefix {
  readonly value: PythonValue;
  /** Offset after the value. */
  readonly end: number;
  /** True if the value is complete. */
  readonly complete: boolean;
}

/**
 * Reads the value at `from`. `strings`: includes an incomplete string as far as it goes. Otherwise it is left out with its key.
 * Throws `MalformedJson`.
 */
export function readPrefix(text: string, from: number, strings: boolean): JsonPrefix {
  const reader = new Reader(text, from, strings);
  const value = reader.top();
  return { value, end: reader.at, complete: !reader.cut };
}

/** Represents an incomplete value that is left out. */
const INCOMPLETE = Symbol("incomplete");
const WORDS: readonly (readonly [string, PythonValue])[] = [
  ["null", null],
  ["true", true],
  ["false", false],
];
const NUMBER = /[0-9.+\-eE]+/y;
const BLANKS = /\s*/y;

class Reader {
  at: number;
  /** True if the text ended inside the value. */
  cut = false;
  readonly #text: string;
  readonly #strings: boolean;

  constructor(text: string, from: number, strings: boolean) {
    this.#text = text;
    this.at = from;
    this.#strings = strings;
  }

  top(): PythonValue {
    this.#skip();
    const value = this.#value();
    if (value === INCOMPLETE) throw new MalformedJson();
    return value as PythonValue;
  }

  #value(): PythonValue | typeof INCOMPLETE {
    const character = this.#text[this.at];
    if (character === undefined) return this.#open();
    if (character === "{") return this.#object();
    if (character === "[") return this.#list();
    if (character === '"') return this.#string();
    for (const [word, value] of WORDS) {
      const found = this.#text.slice(this.at, this.at + word.length);
      if (found === word || (word.startsWith(found) && this.at + found.length === this.#text.length)) {
        this.cut ||= found !== word;
        this.at += found.length;
        return value;
      }
    }
    return this.#number();
  }

  /** Notes that the text has ended before a value. */
  #open(): typeof INCOMPLETE {
    this.cut = true;
    return INCOMPLETE;
  }

  /** Reads a number. Of a number at the end of the text, it keeps the part that is a valid number. */
  #number(): PythonValue | typeof INCOMPLETE {
    NUMBER.lastIndex = this.at;
    const digits = NUMBER.exec(this.#text)?.[0];
    if (digits === undefined || !/^-?[0-9]/.test(digits)) {
      if (digits === "-" && this.at + 1 === this.#text.length) return this.#open();
      throw new MalformedJson();
    }
    this.at += digits.length;
    const ended = this.at < this.#text.length;
    if (!ended) this.cut = true;
    return parse(ended ? digits : digits.replace(/[.+\-eE]+$/, ""));
  }

  #string(): PythonValue | typeof INCOMPLETE {
    const end = closingQuote(this.#text, this.at + 1);
    if (end >= 0) {
      const value = parse(this.#text.slice(this.at, end + 1));
      this.at = end + 1;
      return value;
    }
    this.cut = true;
    const open = this.#text.slice(this.at);
    this.at = this.#text.length;
    return this.#strings ? parse(`${withoutOpenEscape(open)}"`) : INCOMPLETE;
  }

  #object(): PythonValue {
    const members = new Map<string, PythonValue>();
    this.at++;
    for (let first = true; ; first = false) {
      this.#skip();
      if (this.#next("}") && (first || this.#text[this.at - 1] !== ",")) return members;
      if (this.#ended()) return members;
      if (this.#text[this.at] !== '"') throw new MalformedJson();
      const end = closingQuote(this.#text, this.at + 1);
      if (end < 0) {
        this.at = this.#text.length;
        this.cut = true;
        return members;
      }
      const key = parse(this.#text.slice(this.at, end + 1)) as string;
      this.at = end + 1;
      this.#skip();
      if (this.#ended()) return members;
      if (!this.#next(":")) throw new MalformedJson();
      this.#skip();
      const value = this.#value();
      if (value !== INCOMPLETE) members.set(key, value as PythonValue);
      if (this.cut) return members;
      this.#skip();
      if (this.#ended()) return members;
      if (this.#next("}")) return members;
      if (!this.#next(",")) throw new MalformedJson();
    }
  }

  #list(): PythonValue {
    const items: PythonValue[] = [];
    this.at++;
    for (;;) {
      this.#skip();
      if (this.#next("]") || this.#ended()) return items;
      const value = this.#value();
      if (value !== INCOMPLETE) items.push(value as PythonValue);
      if (this.cut) return items;
      this.#skip();
      if (this.#ended() || this.#next("]")) return items;
      if (!this.#next(",")) throw new MalformedJson();
    }
  }

  /** Skips this character. Returns false if another character follows. */
  #next(character: string): boolean {
    if (this.#text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  /** Reports whether the text has ended. */
  #ended(): boolean {
    if (this.at < this.#text.length) return false;
    this.cut = true;
    return true;
  }

  #skip(): void {
    BLANKS.lastIndex = this.at;
    BLANKS.exec(this.#text);
    this.at = BLANKS.lastIndex;
  }
}

/** Returns the offset of the quote that ends a string whose content starts at `from`, or -1. */
function closingQuote(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x5c) at++;
    else if (unit === 0x22) return at;
  }
  return -1;
}

/** Removes an incomplete escape from the end of a string. */
function withoutOpenEscape(open: string): string {
  const broken = /\\(?:u[0-9a-fA-F]{0,3})?$/.exec(open);
  if (broken === null) return open;
  const slashes = /\\*$/.exec(open.slice(0, broken.index))![0].length;
  return slashes % 2 === 0 ? open.slice(0, broken.index) : open;
}

function parse(text: string): PythonValue {
  try {
    return parsePython(text);
  } catch (failure) {
    if (failure instanceof PythonJsonError || failure instanceof PythonJsonFailure) throw new MalformedJson();
    throw failure;
  }
}

/** Reports whether Python's `bool(value)` is false. For values that are not floats. */
export function isEmpty(value: PythonValue | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === "") return true;
  if (isList(value)) return value.length === 0;
  return value instanceof Map && value.size === 0;
}

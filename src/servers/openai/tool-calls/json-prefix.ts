/**
 * What does the beginning of a JSON text say so far? As PyPI's `partial_json_parser` 0.2, which vLLM's parser for Llama 3
 * reads with: what is open is closed, what cannot be closed is left out.
 */
import { PythonJsonError, PythonJsonFailure, parsePython } from "../../pydantic/json.ts";
import { isList, type PythonValue } from "../../pydantic/value.ts";

/** No JSON, however it goes on. */
export class Malformed {}

export interface JsonPrefix {
  readonly value: PythonValue;
  /** Characters that belong to it. */
  readonly end: number;
  /** Whether the value is whole. */
  readonly complete: boolean;
}

/**
 * The value at `from`. `strings`: one that is open is taken as far as it goes, else it is left out, and its key with it.
 * Throws `Malformed`.
 */
export function readPrefix(text: string, from: number, strings: boolean): JsonPrefix {
  const reader = new Reader(text, from, strings);
  const value = reader.top();
  return { value, end: reader.at, complete: !reader.cut };
}

/** An open value of which nothing can be said. */
const NOTHING = Symbol("nothing yet");
const WORDS: readonly (readonly [string, PythonValue])[] = [
  ["null", null],
  ["true", true],
  ["false", false],
];
const NUMBER = /[0-9.+\-eE]+/y;
const BLANKS = /\s*/y;

class Reader {
  at: number;
  /** The text ended inside. */
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
    if (value === NOTHING) throw new Malformed();
    return value as PythonValue;
  }

  #value(): PythonValue | typeof NOTHING {
    const character = this.#text[this.at];
    if (character === undefined) return this.#open();
    if (character === "{") return this.#object();
    if (character === "[") return this.#list();
    if (character === '"') return this.#string();
    for (const [word, value] of WORDS) {
      const given = this.#text.slice(this.at, this.at + word.length);
      if (given === word || (word.startsWith(given) && this.at + given.length === this.#text.length)) {
        this.cut ||= given !== word;
        this.at += given.length;
        return value;
      }
    }
    return this.#number();
  }

  #open(): typeof NOTHING {
    this.cut = true;
    return NOTHING;
  }

  /** One that may go on is taken as far as it is a number. */
  #number(): PythonValue | typeof NOTHING {
    NUMBER.lastIndex = this.at;
    const digits = NUMBER.exec(this.#text)?.[0];
    if (digits === undefined || !/^-?[0-9]/.test(digits)) {
      if (digits === "-" && this.at + 1 === this.#text.length) return this.#open();
      throw new Malformed();
    }
    this.at += digits.length;
    const ended = this.at < this.#text.length;
    if (!ended) this.cut = true;
    return parse(ended ? digits : digits.replace(/[.+\-eE]+$/, ""));
  }

  #string(): PythonValue | typeof NOTHING {
    const end = closingQuote(this.#text, this.at + 1);
    if (end >= 0) {
      const value = parse(this.#text.slice(this.at, end + 1));
      this.at = end + 1;
      return value;
    }
    this.cut = true;
    const open = this.#text.slice(this.at);
    this.at = this.#text.length;
    return this.#strings ? parse(`${withoutOpenEscape(open)}"`) : NOTHING;
  }

  #object(): PythonValue {
    const members = new Map<string, PythonValue>();
    this.at++;
    for (let first = true; ; first = false) {
      this.#skip();
      if (this.#next("}") && (first || this.#text[this.at - 1] !== ",")) return members;
      if (this.#ended()) return members;
      if (this.#text[this.at] !== '"') throw new Malformed();
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
      if (!this.#next(":")) throw new Malformed();
      this.#skip();
      const value = this.#value();
      if (value !== NOTHING) members.set(key, value as PythonValue);
      if (this.cut) return members;
      this.#skip();
      if (this.#ended()) return members;
      if (this.#next("}")) return members;
      if (!this.#next(",")) throw new Malformed();
    }
  }

  #list(): PythonValue {
    const items: PythonValue[] = [];
    this.at++;
    for (;;) {
      this.#skip();
      if (this.#next("]") || this.#ended()) return items;
      const value = this.#value();
      if (value !== NOTHING) items.push(value as PythonValue);
      if (this.cut) return items;
      this.#skip();
      if (this.#ended() || this.#next("]")) return items;
      if (!this.#next(",")) throw new Malformed();
    }
  }

  #next(character: string): boolean {
    if (this.#text[this.at] !== character) return false;
    this.at++;
    return true;
  }

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

/** Where a string ends that has begun before `from`; -1: nowhere. */
function closingQuote(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x5c) at++;
    else if (unit === 0x22) return at;
  }
  return -1;
}

/** An escape of which characters are missing is no text yet. */
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
    if (failure instanceof PythonJsonError || failure instanceof PythonJsonFailure) throw new Malformed();
    throw failure;
  }
}

/** `bool(value)` of what a parser asks only for emptiness. */
export function isEmpty(value: PythonValue | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === "") return true;
  if (isList(value)) return value.length === 0;
  return value instanceof Map && value.size === 0;
}

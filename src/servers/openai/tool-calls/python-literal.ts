/**
 * Reads a list of calls in Python's notation: `[f(a="x", n=3), g()]`. Like vLLM 0.33 (`tool_parsers/utils.py`,
 * `get_parameter_value`), it accepts only literals as values. Unlike Python, it accepts keywords as names of parameters.
 */
import { PythonFloat, type PythonValue, toInt } from "../../pydantic/value.ts";

/** A call in Python's notation. */
export interface PythonCall {
  readonly name: string;
  /** Arguments by name. */
  readonly args: ReadonlyMap<string, PythonValue>;
}

/** Thrown for text that is not in this notation. */
class NoLiteral extends Error {
  override readonly name = "NoLiteral";
}

/** Reads a list of calls. `allowSets` is false if `{"a"}` may be the beginning of a dictionary. Throws `NoLiteral`. */
export function readCalls(text: string, allowSets = true): PythonCall[] {
  const reader = new LiteralReader(text, allowSets);
  const calls = reader.calls();
  reader.end();
  return calls;
}

/** Reads a literal. Throws `NoLiteral`. */
export function readLiteral(text: string): PythonValue {
  const reader = new LiteralReader(text, true);
  const value = reader.value();
  reader.end();
  return value;
}

const NAMES: Readonly<Record<string, PythonValue>> = {
  True: true,
  False: false,
  None: null,
  true: true,
  false: false,
  null: null,
};
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", a: "\x07" },
  ...{ "\\": "\\", "'": "'", '"': '"', "\n": "" },
};
const NUMBER = /[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*/uy;

class LiteralReader {
  #at = 0;

  constructor(
    private readonly text: string,
    private readonly allowSets: boolean,
  ) {}

  calls(): PythonCall[] {
    return this.#list("[", "]", () => this.#call());
  }

  /** Throws `NoLiteral` unless only white space is left. */
  end(): void {
    this.#blanks();
    if (this.#at < this.text.length) throw new NoLiteral();
  }

  value(): PythonValue {
    this.#blanks();
    const first = this.text[this.#at];
    if (first === '"' || first === "'") return this.#string();
    if (first === "[") return this.#list("[", "]", () => this.value());
    if (first === "(") return this.#list("(", ")", () => this.value());
    if (first === "{") return this.#dict();
    const number = this.#match(NUMBER);
    if (number !== null) return numberIn(number);
    const name = this.#match(NAME);
    if (name === null || !Object.hasOwn(NAMES, name)) throw new NoLiteral();
    return NAMES[name]!;
  }

  #call(): PythonCall {
    const name = this.#match(NAME);
    if (name === null) throw new NoLiteral();
    const pairs = this.#list("(", ")", (): [string, PythonValue] => {
      const key = this.#match(NAME);
      if (key === null || key.includes(".")) throw new NoLiteral();
      this.#skip("=");
      return [key, this.value()];
    });
    return { name, args: new Map(pairs) };
  }

  /** Reads a dictionary, or a set, which becomes a list. */
  #dict(): PythonValue {
    let isSet = false;
    const members = this.#list("{", "}", (): [PythonValue, PythonValue] => {
      const key = this.value();
      this.#blanks();
      if (this.text[this.#at] !== ":") {
        if (!this.allowSets) throw new NoLiteral();
        isSet = true;
        return [key, key];
      }
      this.#at++;
      return [key, this.value()];
    });
    if (isSet) return members.map(([key]) => key);
    return new Map(members.map(([key, value]) => [String(key), value]));
  }

  #list<T>(opens: string, closes: string, item: () => T): T[] {
    this.#skip(opens);
    const items: T[] = [];
    for (;;) {
      this.#blanks();
      if (this.text[this.#at] === closes) break;
      if (items.length > 0) this.#skip(",");
      this.#blanks();
      if (this.text[this.#at] === closes) break;
      items.push(item());
    }
    this.#at++;
    return items;
  }

  #string(): string {
    const quote = this.text[this.#at++]!;
    let value = "";
    for (;;) {
      const character = this.text[this.#at++];
      if (character === undefined) throw new NoLiteral();
      if (character === quote) return value;
      value += character === "\\" ? this.#escape() : character;
    }
  }

  #escape(): string {
    const letter = this.text[this.#at++];
    if (letter === undefined) throw new NoLiteral();
    const digits = { x: 2, u: 4, U: 8 }[letter];
    if (digits === undefined) return ESCAPES[letter] ?? `\\${letter}`;
    const hex = this.text.slice(this.#at, this.#at + digits);
    if (!/^[0-9a-f]+$/i.test(hex) || hex.length < digits) throw new NoLiteral();
    this.#at += digits;
    const code = Number.parseInt(hex, 16);
    if (code > 0x10ffff) throw new NoLiteral();
    return String.fromCodePoint(code);
  }

  /** Skips this character. Throws `NoLiteral` if another character follows. */
  #skip(character: string): void {
    this.#blanks();
    if (this.text[this.#at] !== character) throw new NoLiteral();
    this.#at++;
  }

  #blanks(): void {
    while (/\s/.test(this.text[this.#at] ?? "")) this.#at++;
  }

  #match(pattern: RegExp): string | null {
    this.#blanks();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0] ?? null;
    if (found !== null) this.#at += found.length;
    return found;
  }
}

function numberIn(text: string): PythonValue {
  const plain = text.replaceAll("_", "").replace(/^\+/, "");
  return /^-?\d+$/.test(plain) ? toInt(BigInt(plain)) : new PythonFloat(Number(plain));
}

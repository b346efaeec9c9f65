/** Reads raw arguments as Gemma 4 writes them: `city:<|"|>Rome<|"|>,n:42,at:{x:1}`. Source: vLLM 0.33, `parser/gemma4.py`. */
import type { PythonValue } from "../../pydantic/value.ts";

/** The token on both sides of a string. */
export const STRING_MARK = '<|"|>';
const BLANKS = " \n\t";

/** `open`: values that may still grow are left out, unless they are strings. */
export function gemmaArguments(raw: string, open: boolean): Map<string, PythonValue> {
  return readerOf(raw, open).members();
}

/** Reports whether the last argument is a string that has not ended. */
export function endsInText(raw: string): boolean {
  const reader = readerOf(raw, true);
  const last = [...reader.members().keys()].at(-1);
  return last !== undefined && last === reader.openKey;
}

/** Without the closing bracket of the call, if it has come. */
function readerOf(raw: string, open: boolean): Reader {
  const text = raw.trim();
  const isClosed = text.endsWith("}") || (text.endsWith(")") && count(text, "(") < count(text, ")"));
  return new Reader(isClosed ? text.slice(0, -1) : text, open);
}

const count = (text: string, character: string) => text.split(character).length - 1;

class Reader {
  readonly #text: string;
  readonly #open: boolean;
  #at = 0;
  /** The member whose string has not ended; null: there is none. */
  openKey: string | null = null;

  constructor(text: string, open: boolean) {
    this.#text = text;
    this.#open = open;
  }

  members(): Map<string, PythonValue> {
    const members = new Map<string, PythonValue>();
    const { length } = this.#text;
    while (this.#skip(` ,${BLANKS}`)) {
      const colon = this.#text.indexOf(":", this.#at);
      if (colon < 0) break;
      const key = unquoted(this.#text.slice(this.#at, colon).trim());
      this.#at = colon + 1;
      if (!this.#skip(BLANKS)) {
        if (!this.#open) members.set(key, "");
        break;
      }
      const from = this.#at;
      const value = this.#value(",}]");
      if (value === undefined) break;
      members.set(key, value);
      const isString = this.#text.startsWith(STRING_MARK, from);
      if (isString && this.#text.indexOf(STRING_MARK, from + STRING_MARK.length) < 0) this.openKey = key;
      if (this.#at >= length) break;
    }
    return members;
  }

  items(): PythonValue[] {
    const items: PythonValue[] = [];
    while (this.#skip(` ,${BLANKS}`)) {
      const value = this.#value(",]");
      if (value === undefined) break;
      items.push(value);
    }
    return items;
  }

  /** Moves over these characters. Returns false at the end of the text. */
  #skip(characters: string): boolean {
    while (this.#at < this.#text.length && characters.includes(this.#text[this.#at]!)) this.#at++;
    return this.#at < this.#text.length;
  }

  /** `ends`: characters that end a bare value. undefined: the value is incomplete, or there is none. */
  #value(ends: string): PythonValue | undefined {
    const text = this.#text;
    if (text.startsWith(STRING_MARK, this.#at)) return this.#string();
    if (text[this.#at] === "{") return this.#nested("{", "}").members();
    if (text[this.#at] === "[") return this.#nested("[", "]").items();
    const from = this.#at;
    while (this.#at < text.length && !ends.includes(text[this.#at]!)) this.#at++;
    if ((this.#open && this.#at >= text.length) || this.#at === from) return undefined;
    const bare = text.slice(from, this.#at).trim();
    // More digits may follow.
    return this.#open && bare.endsWith(".") ? undefined : bare;
  }

  #string(): string {
    const from = this.#at + STRING_MARK.length;
    const end = this.#text.indexOf(STRING_MARK, from);
    this.#at = end < 0 ? this.#text.length : end + STRING_MARK.length;
    if (end >= 0) return this.#text.slice(from, end);
    const value = this.#text.slice(from);
    return this.#open ? withoutPartialMark(value) : value;
  }

  /** The text inside a pair of brackets, strings passed over; it is open if the closing bracket has not come. */
  #nested(opens: string, closes: string): Reader {
    const from = ++this.#at;
    let depth = 1;
    while (this.#at < this.#text.length && depth > 0) {
      if (this.#text.startsWith(STRING_MARK, this.#at)) {
        const end = this.#text.indexOf(STRING_MARK, this.#at + STRING_MARK.length);
        this.#at = end < 0 ? this.#text.length : end + STRING_MARK.length;
        continue;
      }
      if (this.#text[this.#at] === opens) depth++;
      else if (this.#text[this.#at] === closes) depth--;
      this.#at++;
    }
    return depth > 0
      ? new Reader(this.#text.slice(from, this.#at), true)
      : new Reader(this.#text.slice(from, this.#at - 1), false);
  }
}

function unquoted(key: string): string {
  const isQuoted = key.startsWith(STRING_MARK) && key.endsWith(STRING_MARK);
  return isQuoted ? key.slice(STRING_MARK.length, -STRING_MARK.length) : key;
}

/** The end of a value that may be the beginning of the closing mark is not part of it yet. */
function withoutPartialMark(value: string): string {
  for (let length = STRING_MARK.length; length > 0; length--)
    if (value.endsWith(STRING_MARK.slice(0, length))) return value.slice(0, -length);
  return value;
}

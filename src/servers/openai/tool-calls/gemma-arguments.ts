/** Reads arguments in the format of Gemma 4: `city:<|"|>Rome<|"|>,n:42,at:{x:1}`. Source: vLLM 0.33, `parser/gemma4.py`. */
import type { PythonValue } from "../../pydantic/value.ts";
import { overlap } from "./parser-parts.ts";

/** The token on both sides of a string. */
export const STRING_MARK = '<|"|>';
const BLANKS = " \n\t";

/** Reads arguments by name. `open`: the text is incomplete. Its last value is then left out unless it is a string. */
export function gemmaArguments(raw: string, open: boolean): Map<string, PythonValue> {
  return readerOf(raw, open).members();
}

/** Reports whether the last argument is a string that has not ended. */
export function endsInText(raw: string): boolean {
  const reader = readerOf(raw, true);
  const last = [...reader.members().keys()].at(-1);
  return last !== undefined && last === reader.openKey;
}

/** Creates a reader of the text without the call's closing bracket. */
function readerOf(raw: string, open: boolean): Reader {
  const text = raw.trim();
  const isClosed = text.endsWith("}") || (text.endsWith(")") && count(text, "(") < count(text, ")"));
  return new Reader(isClosed ? text.slice(0, -1) : text, open);
}

const count = (text: string, character: string) => text.split(character).length - 1;

/** Reads the inside of a pair of brackets. */
class Reader {
  #at = 0;
  /** Key of the member whose string is incomplete. null: all strings are complete. */
  openKey: string | null = null;

  constructor(
    private readonly text: string,
    private readonly open: boolean,
  ) {}

  /** Reads `key:value` pairs. */
  members(): Map<string, PythonValue> {
    const members = new Map<string, PythonValue>();
    const { length } = this.text;
    while (this.#skip(` ,${BLANKS}`)) {
      const colon = this.text.indexOf(":", this.#at);
      if (colon < 0) break;
      const key = unquoted(this.text.slice(this.#at, colon).trim());
      this.#at = colon + 1;
      if (!this.#skip(BLANKS)) {
        if (!this.open) members.set(key, "");
        break;
      }
      const from = this.#at;
      const value = this.#value(",}]");
      if (value === undefined) break;
      members.set(key, value);
      const isString = this.text.startsWith(STRING_MARK, from);
      if (isString && this.text.indexOf(STRING_MARK, from + STRING_MARK.length) < 0) this.openKey = key;
      if (this.#at >= length) break;
    }
    return members;
  }

  /** Reads the items of a list. */
  items(): PythonValue[] {
    const items: PythonValue[] = [];
    while (this.#skip(` ,${BLANKS}`)) {
      const value = this.#value(",]");
      if (value === undefined) break;
      items.push(value);
    }
    return items;
  }

  /** Skips these characters. Returns false at the end of the text. */
  #skip(characters: string): boolean {
    while (this.#at < this.text.length && characters.includes(this.text[this.#at]!)) this.#at++;
    return this.#at < this.text.length;
  }

  /** Reads a value. `ends`: characters that end an unquoted value. Returns undefined if the value is incomplete or missing. */
  #value(ends: string): PythonValue | undefined {
    const text = this.text;
    if (text.startsWith(STRING_MARK, this.#at)) return this.#string();
    if (text[this.#at] === "{") return this.#nested("{", "}").members();
    if (text[this.#at] === "[") return this.#nested("[", "]").items();
    const from = this.#at;
    while (this.#at < text.length && !ends.includes(text[this.#at]!)) this.#at++;
    if ((this.open && this.#at >= text.length) || this.#at === from) return undefined;
    const bare = text.slice(from, this.#at).trim();
    // Further digits may follow the point.
    return this.open && bare.endsWith(".") ? undefined : bare;
  }

  #string(): string {
    const from = this.#at + STRING_MARK.length;
    const end = this.text.indexOf(STRING_MARK, from);
    this.#at = end < 0 ? this.text.length : end + STRING_MARK.length;
    if (end >= 0) return this.text.slice(from, end);
    const value = this.text.slice(from);
    // The last characters may be the beginning of the closing mark.
    return this.open ? value.slice(0, value.length - overlap(value, STRING_MARK)) : value;
  }

  /** Returns a reader of the text up to the matching bracket. Brackets in strings do not count. */
  #nested(opens: string, closes: string): Reader {
    const from = ++this.#at;
    let depth = 1;
    while (this.#at < this.text.length && depth > 0) {
      if (this.text.startsWith(STRING_MARK, this.#at)) {
        const end = this.text.indexOf(STRING_MARK, this.#at + STRING_MARK.length);
        this.#at = end < 0 ? this.text.length : end + STRING_MARK.length;
        continue;
      }
      if (this.text[this.#at] === opens) depth++;
      else if (this.text[this.#at] === closes) depth--;
      this.#at++;
    }
    return depth > 0
      ? new Reader(this.text.slice(from, this.#at), true)
      : new Reader(this.text.slice(from, this.#at - 1), false);
  }
}

function unquoted(key: string): string {
  const isQuoted = key.startsWith(STRING_MARK) && key.endsWith(STRING_MARK);
  return isQuoted ? key.slice(STRING_MARK.length, -STRING_MARK.length) : key;
}

/**
 * Finds the JSON objects and arrays in a text that a person wrote for a model. Also reads variants that such texts have: Python's
 * literals, comments, keys without quotes, commas at the end, and values in words (`"age": <int>`).
 *
 * Prompts may have megabytes of any text. One pass with an explicit stack reads them, so that the work is proportional to the
 * length, and no nesting overflows the thread's stack.
 */
import { parsedJson } from "../../base/json-object.ts";

/** A value that is described in words. */
export class InWords {
  /** `example`: value that the words describe, or undefined. */
  constructor(
    readonly words: string,
    readonly example?: string | number | boolean | null,
  ) {}
}

/** A value for which the text names several choices, as in `"a" | "b"`. */
export class OneOf {
  constructor(readonly values: readonly Scalar[]) {}
}

type Scalar = null | boolean | number | string | InWords;
export type FoundObject = { [key: string]: LooseValue };
export type LooseValue = Scalar | OneOf | LooseValue[] | FoundObject;

/** An object or array in a text. */
export interface FoundJson {
  readonly value: LooseValue[] | FoundObject;
  /** Offset of the opening bracket. */
  readonly from: number;
  /** Offset after the closing bracket. */
  readonly to: number;
}

/** Most nested containers, as in a constraint of a request. If there are more, the outer ones are not read. */
export const NESTING_MOST = 64;
/** Most characters that are read in all, in lengths of the text. A text is read again only after a broken string. */
const PASSES_MOST = 8;

/** A container that is not closed yet. */
interface Frame {
  readonly value: LooseValue[] | FoundObject;
  readonly from: number;
  /** Number of complete containers before it. */
  readonly found: number;
  /** Key whose value comes next. Null if a key comes next, or in a list. */
  key: string | null;
  /** Key of the last value, or null. */
  last: string | null;
  expects: "key" | "colon" | "value" | "next";
  /** Offset after the last value. */
  end: number;
  /** True if the next container is an item of a list without brackets. */
  isItem: boolean;
}

/** Returns all complete containers that are not inside another complete one, in order. */
export function findJson(text: string): FoundJson[] {
  return new Reader(text).read();
}

export function isFoundObject(value: unknown): value is FoundObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return !(value instanceof InWords || value instanceof OneOf);
}

const OPENING = /[{[]/g;
const BLANK = /\s*/y;
const LINE_COMMENT = /\/\/[^\n]*|#[^\n]*/y;
const BARE_KEY = /[A-Za-z_$][\w$-]*/y;
const DOTS = /\.{3}|…/y;
/** Matches words up to the end of the value. They may contain empty brackets, as in `string[]`. */
const BARE = /(?:[^,;{}[\]\n"#/]|\/(?!\/)|\[\]){1,400}/y;
const ANGLES = /<[^<>\n]{1,400}>/y;
const PARENTHESES = /\([^()\n]{0,400}(?:\([^()\n]{0,400}\)[^()\n]{0,400}){0,8}\)/y;
const OR = /\s*(?:\||\bor\b)\s*/y;
/** Matches words before a nested object, as LangChain4j writes them: `(type: array of a.B: {…})`. */
const IN_FRONT = /^\(.*:$/;
const LITERALS: ReadonlyMap<string, null | boolean> = new Map([
  ["null", null],
  ["None", null],
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
]);

/** Reads one text. */
class Reader {
  readonly #stack: Frame[] = [];
  readonly #found: FoundJson[] = [];
  #at = 0;
  /** Characters that may still be read. */
  #left: number;

  constructor(private readonly text: string) {
    this.#left = PASSES_MOST * text.length;
  }

  read(): FoundJson[] {
    while (this.#at < this.text.length && this.#left > 0) {
      const frame = this.#stack.at(-1);
      const before = this.#at;
      if (frame === undefined) this.#seek();
      else if (!this.#step(frame)) this.#stack.length = 0;
      // The offset decreases after a broken string.
      this.#left -= 1 + Math.max(0, this.#at - before);
    }
    return this.#found;
  }

  #seek(): void {
    OPENING.lastIndex = this.#at;
    const opening = OPENING.exec(this.text);
    this.#at = opening?.index ?? this.text.length;
    if (opening !== null) this.#open();
  }

  #open(): void {
    const isList = this.text[this.#at] === "[";
    const value = isList ? [] : (Object.create(null) as FoundObject);
    const place = { value, from: this.#at, found: this.#found.length };
    this.#stack.push({ ...place, key: null, last: null, expects: isList ? "value" : "key", end: 0, isItem: false });
    this.#at++;
  }

  /** Reads the next token of the innermost container. Returns false if it is broken, and so those around it. */
  #step(frame: Frame): boolean {
    this.#match(BLANK);
    const comment = this.#comment();
    if (comment !== null) {
      note(frame, comment);
      return true;
    }
    const next = this.text[this.#at];
    if (next === undefined) return true;
    const closes = Array.isArray(frame.value) ? "]" : "}";
    if (next === closes && frame.expects !== "colon" && frame.key === null) return this.#close(frame);
    switch (frame.expects) {
      case "key":
        return this.#key(frame, next);
      case "colon":
        if (next !== ":") return false;
        this.#at++;
        frame.expects = "value";
        return true;
      case "next":
        return this.#next(frame, next);
      default:
        return this.#value(frame, next);
    }
  }

  /** Reads what separates values. In an object a newline does too, as LangChain writes members. */
  #next(frame: Frame, next: string): boolean {
    const isList = Array.isArray(frame.value);
    const isComma = next === "," || next === ";";
    const isLine = !isList && /["'\w$]/.test(next) && this.text.slice(frame.end, this.#at).includes("\n");
    if (!isComma && !isLine && next !== ")") return false;
    if (!isLine) this.#at++;
    if (next !== ")") frame.expects = isList ? "value" : "key";
    return true;
  }

  #key(frame: Frame, next: string): boolean {
    if (this.#match(DOTS) !== null) {
      frame.expects = "next";
      return true;
    }
    const key = next === '"' || next === "'" ? this.#string(next) : this.#match(BARE_KEY);
    if (key == null) return false;
    // TypeScript marks an optional key so.
    if (this.text[this.#at] === "?") this.#at++;
    frame.key = key;
    frame.expects = "colon";
    return true;
  }

  #value(frame: Frame, next: string): boolean {
    if (next === "{" || next === "[") {
      // The containers inside may still be complete.
      if (this.#stack.length === NESTING_MOST) return false;
      this.#open();
      return true;
    }
    if (Array.isArray(frame.value) && this.#match(DOTS) !== null) {
      frame.expects = "next";
      return true;
    }
    const value = this.#scalar(next);
    if (value === undefined) return false;
    if (value instanceof InWords && IN_FRONT.test(value.words) && this.text[this.#at] === "{")
      frame.isItem = /\b(?:array|list|set)\b/i.test(value.words);
    else put(frame, value, this.#at);
    return true;
  }

  #comment(): string | null {
    if (!this.text.startsWith("/*", this.#at)) return this.#match(LINE_COMMENT);
    const end = this.text.indexOf("*/", this.#at + 2);
    this.#left -= end < 0 ? this.text.length - this.#at : 0;
    return end < 0 ? null : this.#take(end + 2);
  }

  #take(to: number): string {
    const part = this.text.slice(this.#at, to);
    this.#at = to;
    return part;
  }

  #close(frame: Frame): boolean {
    this.#at++;
    this.#stack.pop();
    this.#found.length = frame.found;
    const parent = this.#stack.at(-1);
    // Kept, because it counts if the container around it turns out to be broken.
    this.#found.push({ value: frame.value, from: frame.from, to: this.#at });
    if (parent !== undefined) put(parent, frame.value, this.#at);
    return true;
  }

  /** Reads a value that is no container, or several choices. Returns undefined if there is none. */
  #scalar(next: string): Scalar | OneOf | undefined {
    const first = this.#word(next);
    if (first === undefined) return undefined;
    const values = first instanceof OneOf ? [...first.values] : [first];
    while (this.#match(OR) !== null) {
      const more = this.#word(this.text[this.#at] ?? "");
      if (more === undefined) return undefined;
      values.push(...(more instanceof OneOf ? more.values : [more]));
    }
    return values.length === 1 ? values[0] : new OneOf(values);
  }

  #word(next: string): Scalar | OneOf | undefined {
    if (next === '"' || next === "'") return this.#string(next);
    const words = this.#match(ANGLES) ?? this.#match(PARENTHESES);
    if (words !== null) return new InWords(words.slice(1, -1).trim());
    const bare = this.#match(BARE)?.trim() ?? "";
    if (bare === "") return undefined;
    const parts = bare
      .split(/\s*\|\s*|\s+or\s+/)
      .filter((part) => part !== "")
      .map(literal);
    return parts.length > 1 ? new OneOf(parts) : parts[0];
  }

  /** Reads a string of JSON or Python. Returns undefined if it does not end in its line. */
  #string(quote: string): string | undefined {
    const from = this.#at + 1;
    let at = from;
    let isPlain = true;
    for (; at < this.text.length && this.text[at] !== "\n"; at++) {
      if (this.text[at] === quote) {
        const inside = this.text.slice(from, at);
        this.#at = at + 1;
        return isPlain ? inside : unescaped(inside, quote);
      }
      if (this.text[at] !== "\\") continue;
      isPlain = false;
      at++;
    }
    // The content is read again, because it may have an object.
    this.#left -= at - from;
    this.#at = from;
    return undefined;
  }

  #match(expression: RegExp): string | null {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.text);
    if (found === null) return null;
    this.#at = expression.lastIndex;
    return found[0];
  }
}

/** Adds a value to a container. `end`: offset after the value. */
function put(frame: Frame, item: LooseValue, end: number): void {
  frame.end = end;
  const value = frame.isItem ? [item] : item;
  frame.isItem = false;
  if (Array.isArray(frame.value)) frame.value.push(value);
  else frame.value[frame.key!] = value;
  frame.last = frame.key;
  frame.key = null;
  frame.expects = "next";
}

/** Adds a comment to the value before it, as its description. */
function note({ value, last }: Frame, comment: string): void {
  if (Array.isArray(value) || last === null) return;
  const before = value[last]!;
  const words = comment.replace(/^(?:\/\/|#|\/\*)\s*|\s*\*\/$/g, "");
  if (before instanceof InWords) value[last] = new InWords(`${before.words} ${words}`, before.example);
  else if (before === null || typeof before !== "object") value[last] = new InWords(words, before);
}

function unescaped(inside: string, quote: string): string {
  const json = quote === '"' ? inside : inside.replaceAll("\\'", "'").replaceAll('"', '\\"');
  return (parsedJson(`"${json.replaceAll("\t", "\\t")}"`) ?? inside) as string;
}

function literal(text: string): Scalar {
  const quoted = /^(["'])(.*)\1$/.exec(text);
  if (quoted !== null) return quoted[2]!;
  if (LITERALS.has(text)) return LITERALS.get(text)!;
  return /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text) ? Number(text) : new InWords(text);
}

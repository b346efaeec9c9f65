/**
 * Patterns of token events, which allow reading most events without `JSON.parse`. A pattern is the bytes of one event, with
 * holes for the strings and numbers that change from event to event. An event that differs anywhere else does not match and is
 * parsed.
 */

enum Hole {
  /** Any string. */
  Text,
  /** The string with the output. */
  Output,
  Number,
  /** The number of output tokens so far. */
  Tokens,
}

const HOLES: Readonly<Record<string, Hole>> = {
  id: Hole.Text,
  item_id: Hole.Text,
  obfuscation: Hole.Text,
  delta: Hole.Output,
  content: Hole.Output,
  text: Hole.Output,
  text_output: Hole.Output,
  reasoning: Hole.Output,
  reasoning_content: Hole.Output,
  created: Hole.Number,
  sequence_number: Hole.Number,
  prompt_tokens: Hole.Number,
  total_tokens: Hole.Number,
  completion_tokens: Hole.Tokens,
};

const QUOTE = 34;
const BACKSLASH = 92;
const COLON = 58;
const MOST_DIGITS = 15;
/** Maximum number of digits of a token count. A longer number does not match, and the parsing reader decides. */
const TOKENS_DIGITS_MOST = 9;
/** Length from which a native comparison is faster than a loop. */
const NATIVE_LEAST = 24;

export class EventPattern {
  /** Number of output tokens so far, from the last match. -1 if the event has none. */
  tokens = -1;
  readonly #parts: readonly Buffer[];
  readonly #holes: readonly Hole[];
  /** The `event:` line before the data. Null in APIs without event types, whose output may be empty. */
  readonly #typeLine: Buffer | null;

  private constructor(parts: readonly Buffer[], holes: readonly Hole[], typeLine: Buffer | null) {
    this.#parts = parts;
    this.#holes = holes;
    this.#typeLine = typeLine;
  }

  /**
   * Makes a pattern from the data of an event, which is JSON on one line, and its `type` ("" if none). Returns null unless the
   * event has exactly one output.
   */
  static of(data: Uint8Array, type = ""): EventPattern | null {
    const bytes = Buffer.from(data);
    const parts: Buffer[] = [];
    const holes: Hole[] = [];
    let from = 0;
    let key = "";
    const hole = (kind: Hole, at: number, to: number) => {
      parts.push(bytes.subarray(from, at));
      holes.push(kind);
      from = to;
    };
    for (let at = 0; at < bytes.length; ) {
      const byte = bytes[at]!;
      if (byte === QUOTE) {
        const end = endOfString(bytes, at + 1, bytes.length);
        if (end < 0) return null;
        if (bytes[end + 1] === COLON) key = bytes.toString("latin1", at + 1, end);
        else {
          const kind = HOLES[key];
          if (kind === Hole.Text || kind === Hole.Output) hole(kind, at + 1, end);
          key = "";
        }
        at = end + 1;
      } else if (isDigit(byte)) {
        let end = at;
        while (isDigit(bytes[end])) end++;
        const kind = HOLES[key];
        if ((kind === Hole.Number || kind === Hole.Tokens) && bytes[at - 1] === COLON && isEndOfValue(bytes[end])) {
          hole(kind, at, end);
        }
        key = "";
        at = end;
      } else {
        if (byte === 123 || byte === 91) key = "";
        at++;
      }
    }
    parts.push(bytes.subarray(from));
    if (holes.filter((kind) => kind === Hole.Output).length !== 1) return null;
    if (holes.filter((kind) => kind === Hole.Tokens).length > 1) return null;
    parts[0] = Buffer.concat([Buffer.from("data: "), parts[0]!]);
    parts[parts.length - 1] = Buffer.concat([parts.at(-1)!, Buffer.from("\n\n")]);
    return new EventPattern(parts, holes, type === "" ? null : Buffer.from(`event: ${type}\n`));
  }

  /** Matches an event at `at`. Returns the offset after its empty line, or -1 if it differs or is not complete. */
  match(bytes: Uint8Array, at: number, end: number): number {
    const parts = this.#parts;
    const typeLine = this.#typeLine;
    this.tokens = -1;
    if (typeLine !== null && bytes[at] === typeLine[0]) {
      if (at + typeLine.length > end || typeLine.compare(bytes, at, at + typeLine.length) !== 0) return -1;
      at += typeLine.length;
    }
    for (let i = 0; ; i++) {
      const part = parts[i]!;
      const length = part.length;
      if (at + length > end) return -1;
      if (length >= NATIVE_LEAST) {
        if (part.compare(bytes, at, at + length) !== 0) return -1;
      } else for (let j = 0; j < length; j++) if (bytes[at + j] !== part[j]) return -1;
      at += length;
      if (i === this.#holes.length) return at;
      const kind = this.#holes[i]!;
      if (kind <= Hole.Output) {
        const to = endOfString(bytes, at, end);
        if (to < 0 || (kind === Hole.Output && to === at && typeLine !== null)) return -1;
        at = to;
      } else {
        let value = 0;
        const from = at;
        for (; at < end && isDigit(bytes[at]); at++) value = value * 10 + bytes[at]! - 48;
        if (at === from || at - from > MOST_DIGITS) return -1;
        if (kind === Hole.Tokens) {
          if (at - from > TOKENS_DIGITS_MOST) return -1;
          this.tokens = value;
        }
      }
    }
  }
}

/** Returns the offset of the closing quote. -1 if there is none, or if a control character comes first. */
function endOfString(bytes: Uint8Array, from: number, end: number): number {
  for (let at = from; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
    else if (byte < 32) return -1;
  }
  return -1;
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 48 && byte <= 57;

const isEndOfValue = (byte: number | undefined): boolean => byte === 44 || byte === 125 || byte === 93;

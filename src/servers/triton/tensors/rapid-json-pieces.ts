/**
 * How is a large document read without holding up others? Value by value, with what is open kept on a stack, and a window of
 * the body as text: the parser's own words, numbers and errors, in pieces.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { invalidArg } from "../model-config/status.ts";
import { Code } from "./json-codes.ts";
import { JsonMembers, type JsonNode, LongList, LongText, SHORT_LIST, SHORT_TEXT_BYTES } from "./json-nodes.ts";
import { HELD, RapidJsonError, RapidJsonParser } from "./rapid-json.ts";
import { TextInPlace } from "./text-in-place.ts";

/** Bytes that are made a text at a time. */
const WINDOW_BYTES = 65_536;
/** With fewer ahead the window moves: more than what is read between two looks at it, but for what can be endless. */
const AHEAD_BYTES = 4096;
/** A token that ends so near to the window's end may go on behind it. */
const EDGE_BYTES = 16;
/** Values between two stops. */
const VALUES_OF_A_PIECE = 128;

/**
 * Throws a `RapidJsonError`, as `parseRapidJson` does, and a `TritonError` for a name of more than 1 MiB. Lists of more than `SHORT_LIST` items are a `LongList`. Writes long
 * texts into the body, which nobody may read as JSON from then on.
 */
export function* rapidJsonInPieces(body: Uint8Array): Pieces<JsonNode> {
  return yield* new Reader(body).document();
}

/** What is being read. */
interface Open {
  readonly members: JsonMembers | null;
  /** The member that is read. */
  name: string;
  list: JsonNode[] | LongList;
}

/** The window ends before what was looked for. */
const GOES_ON = -1;
/** A list or an object begins, and is on the stack. */
const OPENED = Symbol("opened");
/** The token may go on behind the window. */
const REST = Symbol("rest");
/** Deeper lists have no whole numbers read in a row. */
const DEPTH_OF_NUMBERS = 1000;

class Reader {
  readonly #bytes: Buffer;
  readonly #stack: Open[] = [];
  #base = 0;
  #last = false;
  #window: RapidJsonParser;

  constructor(body: Uint8Array) {
    this.#bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
    this.#window = this.#open(0, WINDOW_BYTES);
  }

  *document(): Pieces<JsonNode> {
    this.#window.skipMark();
    let next = this.#peek();
    while (next === GOES_ON) next = yield* this.#later();
    if (this.#window.left <= 0) this.#window.fail("The document is empty.");
    for (let done = 1; ; done++) {
      if (done % VALUES_OF_A_PIECE === 0) yield;
      let value = this.#value(next);
      if (value === REST) value = next === Code.Quote ? yield* this.#text() : yield* this.#token(next);
      if (value === OPENED) {
        const open = this.#stack.at(-1)!;
        next = this.#peek();
        while (next === GOES_ON) next = yield* this.#later();
        if (next !== endOf(open)) {
          if (open.members !== null) next = yield* this.#name(open, next);
          continue;
        }
        this.#window.skip();
        value = this.#closed();
      }
      let open = this.#stack.at(-1);
      for (; open !== undefined; open = this.#stack.at(-1)) {
        add(open, value);
        next = this.#peek();
        while (next === GOES_ON) next = yield* this.#later();
        if (this.#another(open, next)) break;
        value = this.#closed();
      }
      next = this.#peek();
      while (next === GOES_ON) next = yield* this.#later();
      if (open === undefined) {
        if (this.#window.left > 0) this.#window.fail("The document root must not be followed by other values.");
        return value;
      }
      if (open.members !== null) next = yield* this.#name(open, next);
    }
  }

  #value(first: number): JsonNode | typeof OPENED | typeof REST {
    this.#window.deep(this.#stack.length);
    if (first === Code.OpenBrace || first === Code.OpenBracket) {
      this.#window.skip();
      this.#stack.push({ members: first === Code.OpenBrace ? new JsonMembers() : null, name: "", list: [] });
      return OPENED;
    }
    const from = this.#base + this.#window.at;
    if (first === Code.Quote) {
      this.#window.beginText();
      return this.#window.textOn(this.#last) ? this.#window.made : REST;
    }
    return this.#scalar(from, first);
  }

  /** Again from `from` where the window's end may have cut it. */
  #scalar(from: number, first: number): JsonNode | typeof REST {
    try {
      const value = this.#window.scalar(first);
      if (this.#last || this.#window.left >= EDGE_BYTES) return value;
    } catch (error) {
      const isAtEdge = !this.#last && error instanceof RapidJsonError && this.#window.left < EDGE_BYTES;
      if (!isAtEdge) throw error;
    }
    this.#window = this.#open(from, 4 * (this.#window.left + this.#base + this.#window.at - from) + WINDOW_BYTES);
    return REST;
  }

  *#token(first: number): Pieces<JsonNode> {
    for (;;) {
      const value = this.#scalar(this.#base + this.#window.at, first);
      if (value !== REST) return value;
      yield;
    }
  }

  /** Reads the rest of a text, which began in this window. */
  *#text(): Pieces<string | LongText> {
    const text = new TextInPlace(this.#bytes, this.#base + this.#window.at, this.#window.made);
    const isWhole = yield* text.read();
    this.#window = this.#open(text.at, WINDOW_BYTES);
    // Reads the error once more, and throws it.
    if (!isWhole) this.#window.textOn(true);
    const { bytes } = text;
    return bytes.length > SHORT_TEXT_BYTES ? new LongText(bytes) : bytes.toString("latin1");
  }

  /** Gives what the member's value begins with. */
  *#name(open: Open, first: number): Pieces<number> {
    if (first !== Code.Quote) this.#window.fail("Missing a name for object member.");
    // Short ones come again with each request, and are kept.
    const name = this.#scalar(this.#base + this.#window.at, first);
    open.name = name === REST ? yield* this.#longName() : (name as string);
    let next = this.#peek();
    while (next === GOES_ON) next = yield* this.#later();
    if (next !== Code.Colon) this.#window.fail("Missing a colon after a name of object member.");
    this.#window.skip();
    next = this.#peek();
    while (next === GOES_ON) next = yield* this.#later();
    return next;
  }

  /** Reads a name that goes on behind the window. Throws a `TritonError` if it is longer than a short text. */
  *#longName(): Pieces<string> {
    this.#window.beginText();
    const name = this.#window.textOn(this.#last) ? this.#window.made : yield* this.#text();
    if (typeof name === "string") return name;
    throw invalidArg(`a name of ${name.length} bytes: a stand-in takes ${SHORT_TEXT_BYTES}`);
  }

  /** Behind an item: does another one come? Whole numbers of a list are read here, as far as they stand in a row. */
  #another(open: Open, next: number): boolean {
    const isComma = next === Code.Comma;
    if (!isComma && next !== endOf(open))
      this.#window.fail(
        open.members === null
          ? "Missing a comma or ']' after an array element."
          : "Missing a comma or '}' after an object member.",
      );
    this.#window.skip();
    if (!isComma || open.members !== null || this.#stack.length > DEPTH_OF_NUMBERS) return isComma;
    const count = this.#window.smallNumbers();
    for (let at = 0; at < count; at++) add(open, HELD[at]!);
    return count === 0 || this.#window.before() !== Code.CloseBracket;
  }

  /** What was opened last is complete. */
  #closed(): JsonNode {
    const open = this.#stack.pop()!;
    return open.members ?? open.list;
  }

  /** What stands behind the blanks that come; NaN at the end. */
  #peek(): number {
    this.#move();
    const code = this.#window.space();
    if (!this.#last && this.#window.left <= 0) return GOES_ON;
    this.#move();
    return code;
  }

  /** Blanks without end. */
  *#later(): Pieces<number> {
    yield;
    return this.#peek();
  }

  #move(): void {
    if (!this.#last && this.#window.left < AHEAD_BYTES)
      this.#window = this.#open(this.#base + this.#window.at, WINDOW_BYTES);
  }

  #open(base: number, bytes: number): RapidJsonParser {
    const end = Math.min(this.#bytes.length, base + bytes);
    this.#base = base;
    this.#last = end === this.#bytes.length;
    return new RapidJsonParser(this.#bytes.toString("latin1", base, end), base);
  }
}

const endOf = ({ members }: Open): number => (members === null ? Code.CloseBracket : Code.CloseBrace);

function add(open: Open, value: JsonNode): void {
  if (open.members !== null) open.members.add(open.name, value);
  else if (open.list instanceof LongList) open.list.push(value);
  else {
    open.list.push(value);
    if (open.list.length <= SHORT_LIST) return;
    const long = new LongList();
    for (const one of open.list) long.push(one);
    open.list = long;
  }
}

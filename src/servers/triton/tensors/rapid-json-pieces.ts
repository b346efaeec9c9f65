/**
 * Parses a large JSON document in pieces, so that it does not block other requests. Keeps open lists and objects on a stack and
 * reads the body through a window of text. Results and errors are those of `rapid-json.ts`.
 *
 * Both parsers are needed. For two inputs of 16 integers, this one takes 2.6 times as long. The other parser in a worker takes
 * 300 MB for 20 MB of short floating-point numbers, because it keeps an object per number. This one takes 70 MB.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { invalidArg } from "../model-config/status.ts";
import { Code } from "./json-codes.ts";
import { JsonMembers, type JsonNode, LongList, LongText, SHORT_LIST, SHORT_TEXT_BYTES } from "./json-nodes.ts";
import { numberBuffer, RapidJsonError, RapidJsonParser } from "./rapid-json.ts";
import { TextInPlace } from "./text-in-place.ts";

/** Bytes that are decoded to text at a time. */
const WINDOW_BYTES = 65_536;
/** The window moves when fewer bytes are left. No token is longer, except strings, numbers and whitespace. */
const AHEAD_BYTES = 4096;
/** A token that ends this close to the end of the window may continue after it. */
const EDGE_BYTES = 16;
/** Values parsed between two yields. */
const VALUES_OF_A_PIECE = 128;

/**
 * Parses a document. Throws the same `RapidJsonError` as `parseRapidJson`, and a `TritonError` for a name of more than 1 MiB. A list
 * of more than `SHORT_LIST` items becomes a `LongList`. Decodes long strings in place, so that the body is no longer valid JSON
 * afterwards.
 */
export const rapidJsonInPieces = (body: Uint8Array): Pieces<JsonNode> => new Reader(body).document();

/** A list or an object that is not complete yet. */
interface OpenContainer {
  readonly members: JsonMembers | null;
  /** Name of the member that is being read. */
  name: string;
  list: JsonNode[] | LongList;
}

/** Result if a list or an object began; it is on the stack. */
const OPENED = Symbol("opened");
/** Result if the token may continue after the window. */
const INCOMPLETE = Symbol("rest");
/** In deeper lists, integers are not read in a batch, so that the depth check sees each of them. */
const FAST_NUMBER_DEPTH = 1000;

/** Lists and objects take up to 145 bytes each, texts 44, of three bytes of a body. */
const CONTAINERS_MOST = 2_000_000;
const TEXTS_MOST = 8_000_000;

class Reader {
  #containers = 0;
  #texts = 0;
  readonly #bytes: Buffer;
  readonly #stack: OpenContainer[] = [];
  #base = 0;
  #last = false;
  #window: RapidJsonParser;

  constructor(body: Uint8Array) {
    this.#bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
    this.#window = this.#open(0, WINDOW_BYTES);
  }

  *document(): Pieces<JsonNode> {
    this.#window.skipMark();
    let next = this.#peek() ?? (yield* this.#later());
    if (this.#window.left <= 0) this.#window.fail("The document is empty.");
    for (let done = 1; ; done++) {
      if (done % VALUES_OF_A_PIECE === 0) yield;
      let value = this.#value(next);
      if (value === INCOMPLETE) value = next === Code.Quote ? yield* this.#text() : yield* this.#token(next);
      if (value === OPENED) {
        const open = this.#stack.at(-1)!;
        next = this.#peek() ?? (yield* this.#later());
        if (next === endOf(open)) this.#window.at++;
        else if (open.members !== null) {
          next = yield* this.#name(open, next);
          continue;
        } else if (!this.#integers(open)) {
          next = this.#peek() ?? (yield* this.#later());
          continue;
        }
        value = this.#closed();
      }
      let open = this.#stack.at(-1);
      for (; open !== undefined; open = this.#stack.at(-1)) {
        add(open, value);
        next = this.#peek() ?? (yield* this.#later());
        if (this.#another(open, next, value)) break;
        value = this.#closed();
      }
      next = this.#peek() ?? (yield* this.#later());
      if (open === undefined) {
        if (this.#window.left > 0) this.#window.fail("The document root must not be followed by other values.");
        return value;
      }
      if (open.members !== null) next = yield* this.#name(open, next);
    }
  }

  #value(first: number): JsonNode | typeof OPENED | typeof INCOMPLETE {
    this.#window.deep(this.#stack.length);
    if (first === Code.OpenBrace || first === Code.OpenBracket) {
      this.#window.at++;
      if (++this.#containers > CONTAINERS_MOST)
        throw invalidArg(`more than ${CONTAINERS_MOST} lists and objects: a stand-in takes no more`);
      this.#stack.push({ members: first === Code.OpenBrace ? new JsonMembers() : null, name: "", list: [] });
      return OPENED;
    }
    if (first === Code.Quote && ++this.#texts > TEXTS_MOST)
      throw invalidArg(`more than ${TEXTS_MOST} texts: a stand-in takes no more`);
    if (this.#last) return this.#window.scalar(first);
    if (first !== Code.Quote) return this.#scalar(this.#base + this.#window.at, first);
    this.#window.beginText();
    return this.#window.textOn(false) ? this.#window.made : INCOMPLETE;
  }

  /** Reads a scalar. If the end of the window may have cut it, moves the window to `from` and returns INCOMPLETE. */
  #scalar(from: number, first: number): JsonNode | typeof INCOMPLETE {
    try {
      const value = this.#window.scalar(first);
      if (this.#last || this.#window.left >= EDGE_BYTES) return value;
    } catch (error) {
      const isAtEdge = !this.#last && error instanceof RapidJsonError && this.#window.left < EDGE_BYTES;
      if (!isAtEdge) throw error;
    }
    this.#window = this.#open(from, 4 * (this.#window.left + this.#base + this.#window.at - from) + WINDOW_BYTES);
    return INCOMPLETE;
  }

  *#token(first: number): Pieces<JsonNode> {
    for (;;) {
      const value = this.#scalar(this.#base + this.#window.at, first);
      if (value !== INCOMPLETE) return value;
      yield;
    }
  }

  /** Reads the rest of a string that began in this window. */
  *#text(): Pieces<string | LongText> {
    const text = new TextInPlace(this.#bytes, this.#base + this.#window.at, this.#window.made);
    const isWhole = yield* text.read();
    this.#window = this.#open(text.at, WINDOW_BYTES);
    // Let the parser read the bad part again, because it throws the error.
    if (!isWhole) this.#window.textOn(true);
    const { bytes } = text;
    return bytes.length > SHORT_TEXT_BYTES ? new LongText(bytes) : bytes.toString("latin1");
  }

  /** Reads a member's name and the colon. Returns the first character code of the value. */
  *#name(open: OpenContainer, first: number): Pieces<number> {
    if (first !== Code.Quote) this.#window.fail("Missing a name for object member.");
    // `scalar` caches short names, which recur in every request.
    const name = this.#scalar(this.#base + this.#window.at, first);
    open.name = name === INCOMPLETE ? yield* this.#longName() : (name as string);
    const next = this.#peek() ?? (yield* this.#later());
    if (next !== Code.Colon) this.#window.fail("Missing a colon after a name of object member.");
    this.#window.at++;
    return this.#peek() ?? (yield* this.#later());
  }

  /** Reads a name that continues after the window. Throws a `TritonError` if it is longer than a short text. */
  *#longName(): Pieces<string> {
    this.#window.beginText();
    const name = this.#window.textOn(this.#last) ? this.#window.made : yield* this.#text();
    if (typeof name === "string") return name;
    throw invalidArg(`a name of ${name.length} bytes: a stand-in takes ${SHORT_TEXT_BYTES}`);
  }

  /** Reads the separator after `value`. Returns true if another item follows. After an integer, also reads those that follow. */
  #another(open: OpenContainer, next: number, value: JsonNode): boolean {
    const isComma = next === Code.Comma;
    if (!isComma && next !== endOf(open))
      this.#window.fail(
        open.members === null
          ? "Missing a comma or ']' after an array element."
          : "Missing a comma or '}' after an object member.",
      );
    this.#window.at++;
    return isComma && !(open.members === null && typeof value === "number" && this.#integers(open));
  }

  /** Reads a run of small integers. Returns true if the list ends with it. */
  #integers(open: OpenContainer): boolean {
    if (this.#stack.length > FAST_NUMBER_DEPTH) return false;
    const count = this.#window.smallNumbers();
    if (open.list.length === 0) open.list = numberBuffer.slice(0, count);
    else for (let at = 0; at < count; at++) add(open, numberBuffer[at]!);
    return count > 0 && this.#window.before() === Code.CloseBracket;
  }

  /** Takes the innermost list or object, which is complete, off the stack. */
  #closed(): JsonNode {
    const open = this.#stack.pop()!;
    return open.members ?? open.list;
  }

  /** Skips whitespace. Returns the next character code, NaN at the end of the body, or null at the end of the window. */
  #peek(): number | null {
    if (this.#last) return this.#window.space();
    this.#move();
    const code = this.#window.space();
    if (!this.#last && this.#window.left <= 0) return null;
    this.#move();
    return code;
  }

  /** Continues to skip whitespace after a pause. */
  *#later(): Pieces<number> {
    for (;;) {
      yield;
      const code = this.#peek();
      if (code !== null) return code;
    }
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

const endOf = ({ members }: OpenContainer): number => (members === null ? Code.CloseBracket : Code.CloseBrace);

function add(open: OpenContainer, value: JsonNode): void {
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

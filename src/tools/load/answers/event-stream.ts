/**
 * Reads server-sent events as the HTML standard describes them (section 9.2.6): lines end with LF, CRLF or CR, the `data`
 * fields of an event are joined, comments and other fields are ignored. Of an event's type only `error` counts. Takes pieces of any size. An event that lies whole
 * in a piece is not copied; of others at most `EVENT_LIMIT` bytes are held.
 */
import { type ByteBudget, GrowingBytes } from "../../../base/growing-bytes.ts";

/** Most bytes of a line, and of the data of one event. */
export const EVENT_LIMIT = 1 << 22;

export interface EventReceiver {
  /** A whole event whose form is known by heart begins at `at`: where it ends, behind its blank line; -1: it is another. */
  match(bytes: Uint8Array, at: number, end: number): number;
  /** The data of an event; the bytes are the caller's again afterwards. `isError`: its type is `error`. */
  event(bytes: Uint8Array, from: number, to: number, isError: boolean): void;
  /** The event is longer than `EVENT_LIMIT`, or all answers together hold too much. Nothing more is read. */
  tooLong(): void;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const DATA = Buffer.from("data:");
const ERROR_TYPE = /^event: ?error$/;
/** Longest line that may be the type of an error. */
const ERROR_TYPE_BYTES = "event: error".length;
/** May stand before the first line, and is none of it. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

export class EventStream {
  readonly #sink: EventReceiver;
  /** The beginning of a line whose end has not come. */
  readonly #line: GrowingBytes;
  /** Data fields of an event whose blank line has not come, joined by LF. */
  readonly #data: GrowingBytes;
  /** True if the event has a data field, which may be empty. */
  #hasData = false;
  /** True if the event's type is `error`. */
  #isError = false;
  #isOver = false;
  #afterCr = false;
  /** Bytes of the mark that came; as many as it has: it was there, or is not to come. */
  #mark = 0;

  /** `held`: counts what all answers hold. */
  constructor(sink: EventReceiver, held: ByteBudget) {
    this.#sink = sink;
    this.#line = new GrowingBytes(EVENT_LIMIT, held);
    this.#data = new GrowingBytes(EVENT_LIMIT, held);
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    let at = this.#mark < BYTE_ORDER_MARK.length ? this.#behindMark(bytes, from, to) : from;
    if (this.#afterCr && at < to) {
      this.#afterCr = false;
      if (bytes[at] === LF) at++;
    }
    while (at < to && !this.#isOver) {
      if (this.#line.length === 0 && !this.#hasData && !this.#isError) {
        const behind = this.#sink.match(bytes, at, to);
        if (behind > at) {
          at = behind;
          continue;
        }
      }
      let end = at;
      while (end < to && bytes[end] !== LF && bytes[end] !== CR) end++;
      if (end === to) {
        this.#hold(bytes, at, to);
        return;
      }
      const next = this.#behind(bytes, end, to);
      if (this.#line.length > 0) {
        this.#hold(bytes, at, end);
        this.#takeLine();
      } else if (!this.#hasData && isData(bytes, at, end) && next < to && isEnd(bytes[next]!)) {
        this.#sink.event(bytes, valueAt(bytes, at, end), end, this.#isError);
        this.#isError = false;
        at = this.#behind(bytes, next, to);
        continue;
      } else this.#take(bytes, at, end);
      at = next;
    }
  }

  /** The body has ended: an event without its blank line counts, as the usual clients have it. */
  end(): void {
    if (this.#line.length > 0) this.#takeLine();
    this.#dispatch();
  }

  /** Nothing more is read, and nothing is held. */
  stop(): void {
    this.#isOver = true;
    this.#line.release();
    this.#data.release();
  }

  #behindMark(bytes: Uint8Array, from: number, to: number): number {
    let at = from;
    for (; at < to && this.#mark < BYTE_ORDER_MARK.length; at++) {
      if (bytes[at] !== BYTE_ORDER_MARK[this.#mark]) {
        this.#mark = BYTE_ORDER_MARK.length;
        return at;
      }
      this.#mark++;
    }
    return at;
  }

  /** Behind the line end at `end`. A CR at the very end may have its LF in the next piece. */
  #behind(bytes: Uint8Array, end: number, to: number): number {
    if (bytes[end] === LF) return end + 1;
    if (end + 1 === to) this.#afterCr = true;
    return end + 1 < to && bytes[end + 1] === LF ? end + 2 : end + 1;
  }

  /** Takes the line that came in pieces. */
  #takeLine(): void {
    if (this.#isOver) return;
    const line = this.#line.bytes();
    this.#take(line, 0, line.length);
    this.#line.clear();
  }

  #take(bytes: Uint8Array, from: number, to: number): void {
    if (from === to) this.#dispatch();
    else if (isData(bytes, from, to)) {
      const isHeld = !this.#hasData || this.#data.append(LINE_FEED, 0, 1);
      this.#hasData = true;
      if (!isHeld || !this.#data.append(bytes, valueAt(bytes, from, to), to)) this.#tooLong();
    } else if (to - from <= ERROR_TYPE_BYTES && bytes[from] === FIRST_OF_EVENT)
      this.#isError = ERROR_TYPE.test(decoder.decode(bytes.subarray(from, to)));
  }

  #dispatch(): void {
    const isError = this.#isError;
    this.#isError = false;
    if (!this.#hasData) return;
    const data = this.#data.bytes();
    this.#hasData = false;
    this.#sink.event(data, 0, data.length, isError);
    this.#data.clear();
  }

  #hold(bytes: Uint8Array, from: number, to: number): void {
    if (!this.#line.append(bytes, from, to)) this.#tooLong();
  }

  #tooLong(): void {
    this.stop();
    this.#hasData = false;
    this.#sink.tooLong();
  }
}

const LINE_FEED = Buffer.from("\n");
const FIRST_OF_EVENT = "e".charCodeAt(0);
const decoder = new TextDecoder();

const isEnd = (byte: number): boolean => byte === LF || byte === CR;

/** `data: x`, `data:x`, or `data` alone, which is an empty value. */
function isData(bytes: Uint8Array, from: number, to: number): boolean {
  const named = Math.min(DATA.length, to - from);
  if (named < DATA.length - 1 || (named === DATA.length - 1 && to - from !== named)) return false;
  for (let i = 0; i < named; i++) if (bytes[from + i] !== DATA[i]) return false;
  return true;
}

function valueAt(bytes: Uint8Array, from: number, to: number): number {
  const at = Math.min(to, from + DATA.length);
  return at < to && bytes[at] === SPACE ? at + 1 : at;
}

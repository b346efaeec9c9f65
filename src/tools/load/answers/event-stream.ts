/**
 * Reads server-sent events by the HTML standard (section 9.2.6): lines end with LF, CRLF or CR, `data` fields of an event are
 * joined, comments and other fields are ignored. Of the event types, only `error` matters. Accepts pieces of any size. An
 * event within one piece is not copied; of other events at most so many bytes are kept as the limit says.
 */
import { type ByteBudget, GrowingBytes } from "../../../base/growing-bytes.ts";

/** Maximum number of bytes of a line, and of the data of one event. */
export const EVENT_LIMIT = 1 << 22;

export interface EventReceiver {
  /**
   * Matches a whole event at `at` against known patterns. Returns the offset after its empty line, or -1 if no pattern
   * matches.
   */
  match(bytes: Uint8Array, at: number, end: number): number;
  /** Receives the data of an event. The bytes are valid only during the call. `isError`: true if the event's type is `error`. */
  event(bytes: Uint8Array, from: number, to: number, isError: boolean): void;
  /** Called if the event is longer than the limit, or the shared budget is exhausted. Nothing more is read. */
  tooLong(): void;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const DATA = Buffer.from("data:");
const ERROR_TYPE = /^event: ?error$/;
/** Length of the longest line that may be an error type. */
const ERROR_TYPE_BYTES = "event: error".length;
/** A byte order mark may stand before the first line. It is ignored. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

export class EventStream {
  readonly #sink: EventReceiver;
  /** A line whose end has not come yet. */
  readonly #line: GrowingBytes;
  /** Data fields of an event whose empty line has not come yet, joined by LF. */
  readonly #data: GrowingBytes;
  /** True if the event has a data field, even an empty one. */
  #hasData = false;
  /** True if the event's type is `error`. */
  #isError = false;
  #isOver = false;
  #afterCr = false;
  /** Number of bytes of the byte order mark that came. Set to its full length when no mark can come any more. */
  #mark = 0;

  /** `held`: memory budget of all answers. `limit`: maximum number of bytes of a line, and of the data of one event. */
  constructor(sink: EventReceiver, held: ByteBudget, limit = EVENT_LIMIT) {
    this.#sink = sink;
    this.#line = new GrowingBytes(limit, held);
    this.#data = new GrowingBytes(limit, held);
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

  /** Handles the end of the body. An event without its empty line counts, as in common clients. */
  end(): void {
    if (this.#line.length > 0) this.#takeLine();
    this.#dispatch();
  }

  /** Stops reading and frees the memory. */
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

  /** Returns the offset after the line end at `end`. If the piece ends with CR, the next may begin with its LF. */
  #behind(bytes: Uint8Array, end: number, to: number): number {
    if (bytes[end] === LF) return end + 1;
    if (end + 1 === to) this.#afterCr = true;
    return end + 1 < to && bytes[end + 1] === LF ? end + 2 : end + 1;
  }

  /** Handles a line that came in several pieces. */
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

/** Reports whether a line is a data field: `data: x`, `data:x`, or just `data`, whose value is empty. */
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

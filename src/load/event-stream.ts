/**
 * Which events are in these bytes? Server-sent events as the HTML standard has them (section 9.2.6): lines end with LF,
 * CRLF or CR, `data` fields of an event are joined, comments and other fields are passed over. Pushed in pieces of any
 * size; an event that lies whole in a piece is not copied.
 */

/** A longer event is no event of an answer. */
export const EVENT_LIMIT = 1 << 24;

export interface EventReceiver {
  /** A whole event whose form is known by heart begins at `at`: where it ends, behind its blank line; -1: it is another. */
  match(bytes: Uint8Array, at: number, end: number): number;
  /** The data of an event; the bytes are the caller's again afterwards. */
  event(bytes: Uint8Array, from: number, to: number): void;
  tooLong(): void;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const DATA = Buffer.from("data:");
/** May stand before the first line, and is none of it. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

export class EventStream {
  readonly #sink: EventReceiver;
  /** The beginning of a line whose end has not come. */
  #line: Buffer[] = [];
  #lineBytes = 0;
  /** Data fields of an event whose blank line has not come. */
  #data: Buffer[] = [];
  #dataBytes = 0;
  #afterCr = false;
  /** Bytes of the mark that came; as many as it has: it was there, or is not to come. */
  #mark = 0;

  constructor(sink: EventReceiver) {
    this.#sink = sink;
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    let at = this.#mark < BYTE_ORDER_MARK.length ? this.#behindMark(bytes, from, to) : from;
    if (this.#afterCr && at < to) {
      this.#afterCr = false;
      if (bytes[at] === LF) at++;
    }
    while (at < to) {
      if (this.#lineBytes === 0 && this.#data.length === 0) {
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
      if (this.#lineBytes > 0) {
        this.#hold(bytes, at, end);
        const line = Buffer.concat(this.#line);
        this.#line = [];
        this.#lineBytes = 0;
        this.#take(line, 0, line.length);
      } else if (this.#data.length === 0 && isData(bytes, at, end) && next < to && isEnd(bytes[next]!)) {
        this.#sink.event(bytes, valueAt(bytes, at, end), end);
        at = this.#behind(bytes, next, to);
        continue;
      } else this.#take(bytes, at, end);
      at = next;
    }
  }

  /** The body has ended: an event without its blank line counts, as the usual clients have it. */
  end(): void {
    if (this.#lineBytes > 0) {
      const line = Buffer.concat(this.#line);
      this.#lineBytes = 0;
      this.#take(line, 0, line.length);
    }
    this.#dispatch();
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

  #take(bytes: Uint8Array, from: number, to: number): void {
    if (from === to) this.#dispatch();
    else if (isData(bytes, from, to)) {
      const value = Buffer.from(bytes.subarray(valueAt(bytes, from, to), to));
      this.#data.push(value);
      this.#dataBytes += value.length;
      if (this.#dataBytes > EVENT_LIMIT) this.#sink.tooLong();
    }
  }

  #dispatch(): void {
    if (this.#data.length === 0) return;
    const parts = this.#data.flatMap((part, i) => (i === 0 ? [part] : [LINE_FEED, part]));
    this.#data = [];
    this.#dataBytes = 0;
    const data = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    this.#sink.event(data, 0, data.length);
  }

  #hold(bytes: Uint8Array, from: number, to: number): void {
    if (from === to) return;
    this.#line.push(Buffer.from(bytes.subarray(from, to)));
    this.#lineBytes += to - from;
    if (this.#lineBytes > EVENT_LIMIT) this.#sink.tooLong();
  }
}

const LINE_FEED = Buffer.from("\n");

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

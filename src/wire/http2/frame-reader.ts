/**
 * Splits the bytes of a connection into frames. Passes on only as many per turn of the event loop as cost about a millisecond,
 * because the tokens of other streams must not wait for them. A client decides the cost of its frames: 64 header blocks may
 * take a thousand times as long as 64 PINGs.
 */
import { ConnectionError, FRAME_BYTES_MOST, FRAME_HEAD_BYTES, Http2Code, PREFACE, readUint31 } from "./frames.ts";

/** Limits of one turn: the estimated cost of its frames, and the measured time, both in microseconds. */
const TURN_COST = 1000;
const TURN_US = 1000;
/** Cost of any frame, in about microseconds. */
const FRAME_COST = 1;
/**
 * A part that is smaller than this fraction of its buffer is copied before it is kept, so that the rest of the buffer is freed.
 */
const KEPT_FRACTION = 8;
/** Number of unread parts above which they are joined. */
const PARTS_MOST = 64;

/** Returns bytes that may be kept for long: the given ones, or a copy if they would keep a far larger buffer in memory. */
export function keepable(bytes: Buffer): Buffer {
  if (bytes.length * KEPT_FRACTION >= bytes.buffer.byteLength) return bytes;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

export class FrameReader {
  /** True if complete frames wait for a later turn. */
  waits = false;
  /** Unread bytes, in the parts in which they arrived, and their sum. */
  #parts: Buffer[] = [];
  #unread = 0;
  /** Length of the first unread frame, as far as it is known. With fewer bytes there is nothing to read. */
  #needed = 0;
  #prefaced = false;
  #closed = false;
  #cost = 0;
  readonly #nowUs: () => number;
  readonly #frame: (type: number, flags: number, id: number, payload: Buffer) => void;

  /** `frame` is called for each frame, and may throw a `ConnectionError`. */
  constructor(nowUs: () => number, frame: (type: number, flags: number, id: number, payload: Buffer) => void) {
    this.#nowUs = nowUs;
    this.#frame = frame;
  }

  /** Appends bytes to the unread ones. */
  add(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#unread += bytes.length;
    // Parts of a few bytes take more memory than their bytes.
    if (this.#parts.length > PARTS_MOST) this.#parts = [Buffer.concat(this.#parts)];
  }

  /** Adds to the cost of the frames of this turn, in about microseconds. */
  spend(cost: number): void {
    this.#cost += cost;
  }

  /** Drops the unread bytes. No frame is read afterwards. */
  close(): void {
    this.#closed = true;
    this.waits = false;
    this.#parts = [];
  }

  /** Reads one turn's frames. Throws a `ConnectionError` for bytes that are not HTTP/2. */
  read(): void {
    if (this.#closed || this.#unread === 0 || this.#unread < this.#needed) return;
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    this.waits = false;
    const read = this.#frames(bytes, this.#preface(bytes));
    this.#unread = bytes.length - read;
    if (this.#closed || this.#unread === 0) this.#parts = [];
    // Frames that wait are read soon. The start of an incomplete frame may stay for as long as the client likes.
    else this.#parts = [this.waits ? bytes.subarray(read) : keepable(bytes.subarray(read))];
  }

  /** Checks the preface. Returns the offset after it, or 0 if it was checked before or is incomplete. */
  #preface(bytes: Buffer): number {
    if (this.#prefaced) return 0;
    const length = Math.min(bytes.length, PREFACE.length);
    if (!bytes.subarray(0, length).equals(PREFACE.subarray(0, length)))
      throw new ConnectionError(Http2Code.Protocol, "the connection does not begin with the HTTP/2 preface");
    this.#prefaced = length === PREFACE.length;
    return this.#prefaced ? length : 0;
  }

  /** Passes on the frames from an offset. Returns the offset of the first frame that was not passed on. */
  #frames(bytes: Buffer, from: number): number {
    if (!this.#prefaced) return 0;
    const untilUs = this.#nowUs() + TURN_US;
    this.#cost = 0;
    let at = from;
    for (;;) {
      this.#needed = FRAME_HEAD_BYTES;
      if (bytes.length - at < FRAME_HEAD_BYTES || this.#closed) break;
      const length = (bytes[at]! << 16) + (bytes[at + 1]! << 8) + bytes[at + 2]!;
      if (length > FRAME_BYTES_MOST)
        throw new ConnectionError(Http2Code.FrameSize, `frame payload is ${length} bytes, limit ${FRAME_BYTES_MOST}`);
      const payloadAt = at + FRAME_HEAD_BYTES;
      const end = payloadAt + length;
      this.#needed = end - at;
      if (bytes.length < end) break;
      // Before every frame except the first: any frame may start or end a request, which takes longer than its estimated cost.
      this.waits = at > from && (this.#cost >= TURN_COST || this.#nowUs() >= untilUs);
      if (this.waits) break;
      this.#cost += FRAME_COST;
      this.#frame(bytes[at + 3]!, bytes[at + 4]!, readUint31(bytes, at + 5), bytes.subarray(payloadAt, end));
      at = end;
    }
    return at;
  }
}

/**
 * Bytes that are collected until they are complete, within two limits: one of their own, and one that everything a run
 * holds of unfinished answers has in sum. One buffer that doubles, so that memory and time stay a small multiple of the
 * bytes, however small the pieces are that a server sends.
 */

/** Counts what all unfinished answers of a run hold together, in bytes. */
export class ByteBudget {
  #held = 0;

  constructor(readonly most: number) {}

  get held(): number {
    return this.#held;
  }

  /** Counts `bytes` more. Returns false, and counts nothing, if that is more than the limit. */
  take(bytes: number): boolean {
    if (this.#held + bytes > this.most) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

const FIRST_BYTES = 256;
/** A buffer of at most this size is used again. */
const KEPT_BYTES = 1024;
const NOTHING = Buffer.alloc(0);

export class GrowingBytes {
  length = 0;
  #buffer: Buffer = NOTHING;

  /** `most`: largest number of bytes; `shared`: counts what is held together with others. */
  constructor(
    private readonly most: number,
    private readonly shared = new ByteBudget(most),
  ) {}

  /** Appends bytes `from` to below `to`. Returns false, and appends nothing, if there would be too many. */
  append(bytes: Uint8Array, from: number, to: number): boolean {
    const length = this.length + to - from;
    if (length > this.most || !this.#reserve(length)) return false;
    // A few bytes are copied faster by a loop than by a call of native code.
    if (to - from < 16) for (let at = from; at < to; at++) this.#buffer[this.length + at - from] = bytes[at]!;
    else this.#buffer.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), this.length);
    this.length = length;
    return true;
  }

  /** The bytes; valid until the next call. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  /** Drops the bytes. A small buffer stays for the next ones. */
  clear(): void {
    if (this.#buffer.length > KEPT_BYTES) this.release();
    this.length = 0;
  }

  /** Drops the bytes and their memory. */
  release(): void {
    this.shared.give(this.#buffer.length);
    this.#buffer = NOTHING;
    this.length = 0;
  }

  #reserve(length: number): boolean {
    const before = this.#buffer.length;
    if (length <= before) return true;
    const size = Math.min(this.most, Math.max(FIRST_BYTES, 2 * before, length));
    if (!this.shared.take(size - before)) return false;
    const larger = Buffer.allocUnsafeSlow(size);
    this.#buffer.copy(larger, 0, 0, this.length);
    this.#buffer = larger;
    return true;
  }
}

/**
 * Collects bytes until they are complete, within two limits. One limit is for each buffer, the other for the sum of all
 * unfinished answers of a run. A full buffer doubles, so that memory and time stay a small multiple of the bytes, even if a
 * server sends very small pieces.
 */

/** Counts the bytes of all unfinished answers of a run of `load`, within a limit. */
export class ByteBudget {
  #held = 0;

  constructor(readonly most: number) {}

  get held(): number {
    return this.#held;
  }

  /** Counts `bytes` more. Returns false and counts nothing if the sum would exceed the limit. */
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
/** A buffer of at most this many bytes is reused after `clear`. */
const KEPT_BYTES = 1024;
const NOTHING = Buffer.alloc(0);

export class GrowingBytes {
  length = 0;
  #buffer: Buffer = NOTHING;

  /** `most`: largest number of bytes in this buffer. `shared`: counts the bytes of this buffer together with those of others. */
  constructor(
    private readonly most: number,
    private readonly shared = new ByteBudget(most),
  ) {}

  /** Appends the bytes from index `from` to below `to`. Returns false and appends nothing if a limit would be exceeded. */
  append(bytes: Uint8Array, from: number, to: number): boolean {
    const length = this.length + to - from;
    if (length > this.most || !this.#reserve(length)) return false;
    // A loop copies a few bytes faster than a call of native code does.
    if (to - from < 16) for (let at = from; at < to; at++) this.#buffer[this.length + at - from] = bytes[at]!;
    else this.#buffer.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), this.length);
    this.length = length;
    return true;
  }

  /** Returns the collected bytes. They are valid until the next call of a method. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  /** Drops the bytes. A small buffer is kept for the next bytes. */
  clear(): void {
    if (this.#buffer.length > KEPT_BYTES) this.release();
    this.length = 0;
  }

  /** Drops the bytes and frees their memory. */
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

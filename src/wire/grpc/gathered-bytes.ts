/**
 * Joins the bytes of a message as they arrive. A large message is copied part by part, because one copy at its end would block
 * the event loop. Memory grows with the bytes received, because the rest of a message may never arrive.
 */

/** Up to this size, parts are kept separately and joined once at the end. */
const TOGETHER_BYTES = 262_144;
/** Number of parts from which they are joined earlier: a part of one byte takes a hundred bytes of memory. */
const PARTS_MOST = 64;
/**
 * Factor by which the buffer grows, up to the expected size. Large steps are cheap, because memory pages that were never written
 * to take no space, and little has to be copied.
 */
const GROWTH = 64;
/** Size up to which a part may keep its whole underlying buffer in memory. */
const PINNED_BYTES_MOST = 4096;

export class GatheredBytes {
  bytes = 0;
  #parts: Uint8Array[] = [];
  /** Buffer that holds all bytes; null while the parts are kept separately. May be larger than `bytes`. */
  #large: Buffer<ArrayBuffer> | null = null;

  /** The first part, which holds the beginning; null without any bytes. */
  get first(): Uint8Array | null {
    return this.#large ?? this.#parts[0] ?? null;
  }

  /** Joins the parts if the first is shorter than `length`. */
  joinFirst(length: number): void {
    if (this.#large === null && this.#parts.length > 1 && this.#parts[0]!.length < length)
      this.#parts = [Buffer.concat(this.#parts)];
  }

  /**
   * Appends bytes. `expected`: announced total size; 0 if unknown. Returns true if it copied the bytes, false if it keeps them.
   */
  add(bytes: Uint8Array, expected: number): boolean {
    const fits = this.bytes + bytes.length <= TOGETHER_BYTES && this.#parts.length < PARTS_MOST;
    const isCopied = this.#large !== null || (this.bytes > 0 && !fits);
    if (isCopied) this.#gather(bytes, expected);
    else this.#parts.push(unpinned(bytes));
    this.bytes += bytes.length;
    return isCopied;
  }

  /** Returns all bytes and becomes empty. */
  take(): Buffer {
    const [first, second] = this.#parts;
    const all =
      this.#large ?? (first !== undefined && second === undefined ? asBuffer(first) : Buffer.concat(this.#parts));
    const whole = all.subarray(0, this.bytes);
    this.#forget();
    return whole;
  }

  /** Drops all bytes. Frees their memory at once instead of at a garbage collection. */
  free(): void {
    if (this.#large !== null) freeBuffer(this.#large);
    this.#forget();
  }

  #forget(): void {
    this.#parts = [];
    this.#large = null;
    this.bytes = 0;
  }

  #gather(bytes: Uint8Array, expected: number): void {
    const needed = this.bytes + bytes.length;
    const before = this.#large;
    if (before === null || before.length < needed) {
      const larger = Buffer.allocUnsafeSlow(stepFor(needed, expected));
      messageBuffers.add(larger.buffer);
      let at = 0;
      for (const part of before === null ? this.#parts : [before.subarray(0, this.bytes)]) {
        larger.set(part, at);
        at += part.length;
      }
      if (before !== null) freeBuffer(before);
      this.#parts = [];
      this.#large = larger;
    }
    this.#large!.set(bytes, this.bytes);
  }
}

/** Buffers allocated here, each for one message alone. */
const messageBuffers = new WeakSet<ArrayBufferLike>();
/** Shorter messages are left to the garbage collector. */
const FREED_BYTES_LEAST = 4 * 2 ** 20;

/** Frees the memory of a large message at once. The message must not be read afterwards. */
export function freeMessage(message: Uint8Array): void {
  if (message.length >= FREED_BYTES_LEAST && messageBuffers.has(message.buffer))
    freeBuffer(message as Buffer<ArrayBuffer>);
}

/** Returns the new buffer size: `expected` divided by the growth factor as often as the needed bytes still fit. */
function stepFor(needed: number, expected: number): number {
  if (expected < needed) return 2 * needed;
  let step = expected;
  while (step / GROWTH >= needed) step /= GROWTH;
  return Math.ceil(step);
}

/** Frees the memory of a buffer, which must be its only user. Nothing may read it afterwards. */
export function freeBuffer(buffer: Buffer<ArrayBuffer>): void {
  buffer.buffer.transfer(0);
}

/** Returns the bytes, or a copy if they are a small part of a buffer that they would keep in memory. */
export function unpinned(bytes: Uint8Array): Uint8Array {
  const { byteLength } = bytes.buffer;
  const isSmallPart = byteLength > PINNED_BYTES_MOST && bytes.length * 2 < byteLength;
  return isSmallPart ? Uint8Array.prototype.slice.call(bytes) : bytes;
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

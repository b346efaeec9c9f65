/**
 * Puts bytes together as they come. A large message is copied part by part: one copy at its end would block the event loop.
 * Memory grows with the bytes that have come, because the rest of a message may never come.
 */

/** Up to here, parts are kept as they came and joined when they are taken. */
const TOGETHER_BYTES = 262_144;
/** More parts are joined earlier: a part of one byte takes a hundred bytes of memory. */
const PARTS_MOST = 64;
/**
 * How much more memory is taken each time, up to all that is expected. Pages that nothing was written to take none, so
 * that large steps cost little, and only a small part is copied when memory is taken anew.
 */
const GROWTH = 64;
/** Bytes may keep a memory of this size alive, however few they are. */
const PINNED_BYTES_MOST = 4096;

export class GatheredBytes {
  bytes = 0;
  #parts: Uint8Array[] = [];
  /** Holds the bytes in place of the parts; null while there are few. Longer than `bytes`. */
  #large: Buffer<ArrayBuffer> | null = null;

  /** The first part, which holds the beginning. Null: nothing has come. */
  get first(): Uint8Array | null {
    return this.#large ?? this.#parts[0] ?? null;
  }

  /** Joins the parts if the first is shorter than `length`. */
  joinFirst(length: number): void {
    if (this.#large === null && this.#parts.length > 1 && this.#parts[0]!.length < length)
      this.#parts = [Buffer.concat(this.#parts)];
  }

  /** `expected`: bytes that are said to come in all; 0: unknown. Keeps `bytes`, or a copy: true. */
  add(bytes: Uint8Array, expected: number): boolean {
    const fits = this.bytes + bytes.length <= TOGETHER_BYTES && this.#parts.length < PARTS_MOST;
    const isCopied = this.#large !== null || (this.bytes > 0 && !fits);
    if (isCopied) this.#gather(bytes, expected);
    else this.#parts.push(unpinned(bytes));
    this.bytes += bytes.length;
    return isCopied;
  }

  /** All bytes. Nothing is held then. */
  taken(): Buffer {
    const [first, second] = this.#parts;
    const all =
      this.#large ?? (first !== undefined && second === undefined ? asBuffer(first) : Buffer.concat(this.#parts));
    const made = all.subarray(0, this.bytes);
    this.#forget();
    return made;
  }

  /** Gives the memory back at once, which a collection of garbage would do later. */
  free(): void {
    if (this.#large !== null) freed(this.#large);
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
      own.add(larger.buffer);
      let at = 0;
      for (const part of before === null ? this.#parts : [before.subarray(0, this.bytes)]) {
        larger.set(part, at);
        at += part.length;
      }
      if (before !== null) freed(before);
      this.#parts = [];
      this.#large = larger;
    }
    this.#large!.set(bytes, this.bytes);
  }
}

/** Memory that was taken here for one message each. */
const own = new WeakSet<ArrayBufferLike>();
/** Shorter messages are left to the collection of garbage. Bytes that came behind a longer one were copied. */
const FREED_BYTES_LEAST = 4 * 2 ** 20;

/** Gives the memory of a large message back at once. Nobody may read the message from then on. */
export function freeMessage(message: Uint8Array): void {
  if (message.length >= FREED_BYTES_LEAST && own.has(message.buffer)) freed(message as Buffer<ArrayBuffer>);
}

/** The least of `expected`, or a whole number of growths below it, that has room for the bytes needed. */
function stepFor(needed: number, expected: number): number {
  if (expected < needed) return 2 * needed;
  let step = expected;
  while (step / GROWTH >= needed) step /= GROWTH;
  return Math.ceil(step);
}

/** Frees the memory of a buffer that has it alone. Nobody may read it from then on. */
export function freed(buffer: Buffer<ArrayBuffer>): void {
  buffer.buffer.transfer(0);
}

/** A copy if the bytes are a small part of the memory that they would keep alive. */
export function unpinned(bytes: Uint8Array): Uint8Array {
  const { byteLength } = bytes.buffer;
  const isSmallPart = byteLength > PINNED_BYTES_MOST && bytes.length * 2 < byteLength;
  return isSmallPart ? Uint8Array.prototype.slice.call(bytes) : bytes;
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

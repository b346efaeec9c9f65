/**
 * Collects the frames of one turn of the event loop and writes them with one call. Keeps the bytes that the kernel does not
 * accept.
 */

/** Number of collected bytes at which they are written at once. */
const FLUSH_BYTES = 65_536;
const FIRST_BYTES = 1024;
/** Buffers above this size are freed when they are empty. */
const KEPT_BYTES = 2 * FLUSH_BYTES;

/** The socket and the event loop, as the outbox sees them. */
export interface OutboxOwner {
  /** Writes to the socket. Returns how many bytes the kernel accepted; negative if the socket is closed. */
  write(bytes: Uint8Array, from: number, length: number): number;
  /** Runs a function at the end of this turn of the event loop. */
  later(run: () => void): void;
  /** Reports that a write failed because the socket is closed. */
  failed(): void;
}

const EMPTY = Buffer.alloc(0);

export class Outbox {
  buffer: Buffer = EMPTY;
  #length = 0;
  #blocked = false;
  #due = false;
  #closed = false;

  constructor(private readonly owner: OutboxOwner) {}

  /** True while the kernel accepts no bytes, until `drained`. */
  get blocked(): boolean {
    return this.#blocked;
  }

  get bytes(): number {
    return this.#length;
  }

  /**
   * Reserves `bytes` bytes at the end and returns their offset in `buffer`. The caller must fill them at once, then call `filled`.
   */
  take(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 ** Math.ceil(Math.log2(this.#length))));
      larger.set(this.buffer.subarray(0, at));
      this.buffer = larger;
    }
    if (!this.#due) {
      this.#due = true;
      this.owner.later(this.#endOfTurn);
    }
    return at;
  }

  /** Reports that the reserved bytes have been filled. */
  filled(): void {
    if (this.#length >= FLUSH_BYTES) this.flush();
  }

  readonly #endOfTurn = (): void => {
    this.#due = false;
    this.flush();
  };

  /** Writes the collected bytes, unless the kernel accepts none. */
  flush(): void {
    if (this.#length === 0 || this.#closed || this.#blocked) return;
    const wrote = this.owner.write(this.buffer, 0, this.#length);
    if (wrote < 0) {
      this.close();
      this.owner.failed();
      return;
    }
    this.#blocked = wrote < this.#length;
    if (this.#blocked) this.buffer.copyWithin(0, wrote, this.#length);
    this.#length -= wrote;
    if (!this.#blocked && this.buffer.length > KEPT_BYTES) this.buffer = EMPTY;
  }

  /** Continues after the socket accepts bytes again. */
  drained(): void {
    this.#blocked = false;
    this.flush();
  }

  close(): void {
    this.#closed = true;
    this.#length = 0;
    this.buffer = EMPTY;
  }
}

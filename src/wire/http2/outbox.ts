/** How do frames leave? Those of one turn of the event loop in one write; what the kernel does not take waits. */

/** With so many bytes nothing waits for the end of the turn. */
const FLUSH_BYTES = 65_536;
const FIRST_BYTES = 1024;
/** A larger buffer is given back when it is empty. */
const KEPT_BYTES = 2 * FLUSH_BYTES;

export interface OutboxEnds {
  /** Gives how many bytes the kernel took; negative: the socket is closed. */
  write(bytes: Uint8Array, from: number, length: number): number;
  /** Runs it behind what this turn of the event loop still does. */
  later(run: () => void): void;
  /** Nothing can be written any more. */
  failed(): void;
}

const EMPTY = Buffer.alloc(0);

export class Outbox {
  buffer: Buffer = EMPTY;
  #length = 0;
  #blocked = false;
  #due = false;
  #closed = false;
  readonly #ends: OutboxEnds;

  constructor(ends: OutboxEnds) {
    this.#ends = ends;
  }

  /** The kernel takes nothing until `drained`. */
  get blocked(): boolean {
    return this.#blocked;
  }

  get bytes(): number {
    return this.#length;
  }

  /** Room for so many bytes behind what is there, to be filled in `buffer` at once; gives where. */
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
      this.#ends.later(this.#endOfTurn);
    }
    return at;
  }

  /** To be called behind what fills `take`'s room. */
  taken(): void {
    if (this.#length >= FLUSH_BYTES) this.flush();
  }

  readonly #endOfTurn = (): void => {
    this.#due = false;
    this.flush();
  };

  /** Writes what is there, unless the kernel takes nothing. */
  flush(): void {
    if (this.#length === 0 || this.#closed || this.#blocked) return;
    const wrote = this.#ends.write(this.buffer, 0, this.#length);
    if (wrote < 0) {
      this.close();
      this.#ends.failed();
      return;
    }
    this.#blocked = wrote < this.#length;
    if (this.#blocked) this.buffer.copyWithin(0, wrote, this.#length);
    this.#length -= wrote;
    if (!this.#blocked && this.buffer.length > KEPT_BYTES) this.buffer = EMPTY;
  }

  /** The socket takes bytes again. */
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

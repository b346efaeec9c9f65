/** Keeps the parts of messages that a connection has not accepted, in order. */

/** Parts that were taken are removed from the list together, because removing one moves all others. */
const REMOVED_TOGETHER = 256;

export class WaitingParts {
  /** Bytes of all parts. No part is empty. */
  bytes = 0;
  /** Number of messages of which a part waits. */
  messages = 0;
  #parts: { bytes: Uint8Array; readonly isLast: boolean }[] = [];
  /** Index of the first part that waits. */
  #from = 0;

  /** The bytes to send next, or undefined. */
  get first(): Uint8Array | undefined {
    return this.#parts[this.#from]?.bytes;
  }

  /** Adds the rest of a message. Its last part must not be empty. */
  add(parts: readonly Uint8Array[]): void {
    for (const [at, bytes] of parts.entries()) {
      if (bytes.length > 0) this.#parts.push({ bytes, isLast: at === parts.length - 1 });
      this.bytes += bytes.length;
    }
    this.messages++;
  }

  /** Removes bytes of the first part. */
  taken(bytes: number): void {
    const part = this.#parts[this.#from]!;
    this.bytes -= bytes;
    if (bytes < part.bytes.length) {
      part.bytes = part.bytes.subarray(bytes);
      return;
    }
    if (part.isLast) this.messages--;
    this.#from++;
    if (this.#from < REMOVED_TOGETHER && this.#from < this.#parts.length) return;
    this.#parts.splice(0, this.#from);
    this.#from = 0;
  }

  clear(): void {
    this.#parts = [];
    this.#from = 0;
    this.bytes = 0;
    this.messages = 0;
  }
}

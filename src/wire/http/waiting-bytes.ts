/** Counts the bytes of all streams of a server that wait for clients that do not read, and compares them with a limit. */
import type { HeldBytes } from "./sink.ts";

export class WaitingBytes implements HeldBytes {
  #bytes = 0;

  /** `most`: limit in bytes. */
  constructor(private readonly most: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** True above the limit: a stream that adds more is broken off. */
  get exceeded(): boolean {
    return this.#bytes > this.most;
  }

  held(bytes: number): void {
    this.#bytes += bytes;
  }
}

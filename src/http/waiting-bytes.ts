/** How many bytes of answers may wait for clients that do not read, of all streams of a server together? */
import type { HeldBytes } from "./sink.ts";

export class WaitingBytes implements HeldBytes {
  readonly #most: number;
  #bytes = 0;

  /** `most`: bytes. */
  constructor(most: number) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** More wait than may: whoever adds to them has its answer broken off. */
  get exceeded(): boolean {
    return this.#bytes > this.#most;
  }

  held(bytes: number): void {
    this.#bytes += bytes;
  }
}

/** How many bytes may wait of all streams of a server together, as answers for clients that do not read? */
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

  /** More wait than may: whoever adds to them is broken off. */
  get exceeded(): boolean {
    return this.#bytes > this.#most;
  }

  held(bytes: number): void {
    this.#bytes += bytes;
  }
}

/**
 * Stores the token ids that wait for a slow client, with three bytes per id in pages. A thousand stalled clients can have
 * millions of ids, and a growing array would leave its earlier copies to the garbage collector.
 */

/** Bytes of one id. Vocabularies are smaller than 2^24. */
export const UNSENT_ID_BYTES = 3;
/** Ids of the first page. It is small because most ids wait only until the next event. */
const FIRST_IDS = 16;
const PAGE_IDS = 256;

export class UnsentIds {
  length = 0;
  readonly #pages: Uint8Array[] = [];
  /** The page being filled. `#used`: its bytes in use. */
  #page: Uint8Array | null = null;
  #used = 0;

  push(id: number): void {
    if (this.#page === null || this.#used === this.#page.length) {
      this.#page = new Uint8Array((this.#pages.length === 0 ? FIRST_IDS : PAGE_IDS) * UNSENT_ID_BYTES);
      this.#pages.push(this.#page);
      this.#used = 0;
    }
    this.#page[this.#used++] = id;
    this.#page[this.#used++] = id >> 8;
    this.#page[this.#used++] = id >> 16;
    this.length++;
  }

  at(index: number): number {
    const later = index - FIRST_IDS;
    const page = this.#pages[later < 0 ? 0 : 1 + Math.floor(later / PAGE_IDS)]!;
    const at = UNSENT_ID_BYTES * (later < 0 ? index : later % PAGE_IDS);
    return page[at]! | (page[at + 1]! << 8) | (page[at + 2]! << 16);
  }

  toArray(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.at(index));
  }

  /** Removes the last `count` ids. `push` is then not allowed before the next `clear`. */
  drop(count: number): void {
    this.length -= count;
  }

  clear(): void {
    this.length = 0;
    this.#pages.length = 0;
    this.#page = null;
  }
}

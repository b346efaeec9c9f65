/**
 * How are the ids kept that wait for their client? Three bytes each, in pages: a thousand stalled readers hold millions
 * of them, and an array that grows leaves its former self to the collector.
 */

/** Bytes of one id; vocabularies are smaller than 2^24. */
export const HELD_ID_BYTES = 3;
/** Most waits end with the next event, so the first page is small. */
const FIRST_IDS = 16;
const PAGE_IDS = 256;

export class HeldIds {
  length = 0;
  readonly #pages: Uint8Array[] = [];
  /** The page being filled, and how much of it. */
  #page: Uint8Array | null = null;
  #used = 0;

  push(id: number): void {
    if (this.#page === null || this.#used === this.#page.length) {
      this.#page = new Uint8Array((this.#pages.length === 0 ? FIRST_IDS : PAGE_IDS) * HELD_ID_BYTES);
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
    const at = HELD_ID_BYTES * (later < 0 ? index : later % PAGE_IDS);
    return page[at]! | (page[at + 1]! << 8) | (page[at + 2]! << 16);
  }

  toArray(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.at(index));
  }

  /** The last `count` are as if they had not come. Nothing may be pushed before the next `clear`. */
  drop(count: number): void {
    this.length -= count;
  }

  clear(): void {
    this.length = 0;
    this.#pages.length = 0;
    this.#page = null;
  }
}

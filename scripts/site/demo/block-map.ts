/**
 * Gives each KV block of the picture to a request. The engine reports only how many blocks are in use. This map chooses the
 * blocks as vLLM does: it takes them from the front of a queue of free blocks, and returns them to its end.
 */

/** Number in `owners` of a block without an owner. */
export const FREE = -1;

/** The blocks of one request, in the order in which they were taken. */
export type BlockList = number[];

export class BlockMap {
  /** Number of the request that holds each block, or FREE. */
  readonly owners: Int32Array;
  /** Queue of the free blocks: a ring of which `#free` entries from `#front` on are valid. */
  readonly #queue: Int32Array;
  #front = 0;
  #free: number;

  constructor(count: number) {
    this.owners = new Int32Array(count).fill(FREE);
    this.#queue = Int32Array.from({ length: count }, (_, at) => at);
    this.#free = count;
  }

  get free(): number {
    return this.#free;
  }

  /**
   * Takes free blocks until `list` has `count`, or gives back the blocks of `list` that are too many. Stops taking if none is
   * free.
   */
  resize(list: BlockList, owner: number, count: number): void {
    const size = this.#queue.length;
    while (list.length > count) {
      const block = list.pop()!;
      this.owners[block] = FREE;
      this.#queue[(this.#front + this.#free++) % size] = block;
    }
    while (list.length < count && this.#free > 0) {
      const block = this.#queue[this.#front]!;
      this.#front = (this.#front + 1) % size;
      this.#free--;
      this.owners[block] = owner;
      list.push(block);
    }
  }
}

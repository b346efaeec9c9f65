/** Which ids are meant? A bit each: the whole vocabulary is 25 KB, and nothing is ever moved to make room. */
export class IdSet {
  size = 0;
  readonly #bits: Uint32Array;

  /** Ids are below `most`. */
  constructor(most: number, ids: Iterable<number> = []) {
    this.#bits = new Uint32Array(Math.ceil(most / 32));
    for (const id of ids) this.add(id);
  }

  has(id: number): boolean {
    return ((this.#bits[id >>> 5] ?? 0) & (1 << (id & 31))) !== 0;
  }

  /** False: it is there already. */
  add(id: number): boolean {
    if (this.has(id)) return false;
    this.#bits[id >>> 5]! |= 1 << (id & 31);
    this.size++;
    return true;
  }
}

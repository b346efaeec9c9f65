/** Returns the ids that a vocabulary of this size has, each once, in the order of first appearance. */
export function distinctIds(ids: readonly number[], size: number): readonly number[] {
  const seen = new IdSet(size);
  return ids.filter((id) => id >= 0 && id < size && seen.add(id));
}

/** A set of token IDs with a bit per ID. A whole vocabulary takes 25 KB, and adding never moves memory. */
export class IdSet {
  size = 0;
  readonly #bits: Uint32Array;

  /** `most`: all IDs are below this number. */
  constructor(most: number, ids: Iterable<number> = []) {
    this.#bits = new Uint32Array(Math.ceil(most / 32));
    for (const id of ids) this.add(id);
  }

  has(id: number): boolean {
    return ((this.#bits[id >>> 5] ?? 0) & (1 << (id & 31))) !== 0;
  }

  /** Adds an ID. Returns false if the set has it already. */
  add(id: number): boolean {
    if (this.has(id)) return false;
    this.#bits[id >>> 5]! |= 1 << (id & 31);
    this.size++;
    return true;
  }
}

/** Where are the rows of a prompt, and of a length? 28 bytes a row: part of its hash, its number, its length, two orders. */

/** So many tokens at most; `exactly`: and no fewer. */
export interface Room {
  readonly tokens: number;
  readonly exactly: boolean;
}

export class RowIndex {
  readonly #hashes: BigUint64Array;
  readonly #rows: Float64Array;
  readonly #tokens: Uint32Array;
  /** Places by hash, and by length. */
  #byHash: Uint32Array;
  #byLength: Uint32Array;
  #count = 0;

  constructor(places: number) {
    this.#hashes = new BigUint64Array(places);
    this.#rows = new Float64Array(places);
    this.#tokens = new Uint32Array(places);
    this.#byHash = new Uint32Array(places).map((_, at) => at);
    this.#byLength = this.#byHash.slice();
  }

  get count(): number {
    return this.#count;
  }

  /** The number of the row that was added so many rows after the first. */
  rowAt(at: number): number {
    return this.#rows[at]!;
  }

  add(row: number, hash: Uint8Array, tokens: number): void {
    const at = this.#count++;
    this.#hashes[at] = beginning(hash);
    this.#rows[at] = row;
    this.#tokens[at] = Math.min(tokens, 2 ** 32 - 1);
  }

  /** After the last row. */
  sort(): void {
    const [hashes, tokens] = [this.#hashes, this.#tokens];
    this.#byHash = this.#byHash.subarray(0, this.#count);
    this.#byLength = this.#byLength.subarray(0, this.#count);
    // Rows of one prompt are sorted by length, the short ones first.
    this.#byHash.sort((a, b) =>
      hashes[a]! < hashes[b]! ? -1 : hashes[a]! > hashes[b]! ? 1 : tokens[a]! - tokens[b]! || a - b,
    );
    this.#byLength.sort((a, b) => tokens[a]! - tokens[b]! || a - b);
  }

  /**
   * Finds, among the prompt's rows, one that fits, else a longer one, else (where the length is to be exact) a shorter
   * one; where it has none, of all rows one that fits, else any. The draw says which.
   */
  rowFor(hash: Uint8Array, { tokens, exactly }: Room, draw: number): number {
    const wanted = beginning(hash);
    const from = first(this.#byHash, 0, (at) => this.#hashes[at]! >= wanted);
    const to = first(this.#byHash, from, (at) => this.#hashes[at]! > wanted);
    const own = this.#byHash.subarray(from, to);
    const order = own.length > 0 ? own : this.#byLength;
    const equal = first(order, 0, (at) => this.#tokens[at]! >= tokens);
    const longer = first(order, equal, (at) => this.#tokens[at]! > tokens);
    const fitting = order.subarray(exactly ? equal : 0, longer);
    const others = own.length > 0 && longer < own.length ? order.subarray(longer) : order;
    const chosen = fitting.length > 0 ? fitting : others;
    return this.#rows[chosen[Math.floor((draw / 2 ** 32) * chosen.length)]!]!;
  }
}

/** Enough to tell prompts apart: among a million rows two share it one time in 37 million. */
function beginning(hash: Uint8Array): bigint {
  return new DataView(hash.buffer, hash.byteOffset, 8).getBigUint64(0);
}

/** The first place from `from` on that is `past`; places before it are not. */
function first(order: Uint32Array, from: number, past: (at: number) => boolean): number {
  let [low, high] = [from, order.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (past(order[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}

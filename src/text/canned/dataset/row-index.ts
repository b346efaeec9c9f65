/** Finds the rows of a prompt, or of a length. Keeps 28 bytes per row: part of its hash, its number, its length, two orders. */

/** The tokens that an answer may have: at most `tokens`, or exactly so many if `exactly` is true. */
export interface Room {
  readonly tokens: number;
  readonly exactly: boolean;
}

/** An index of rows. `add` all rows, then call `sort` once. */
export class RowIndex {
  readonly #hashes: BigUint64Array;
  readonly #rows: Float64Array;
  readonly #tokens: Uint32Array;
  /** Places of rows, sorted by hash and then by length. */
  #byHash: Uint32Array;
  /** Places of rows, sorted by length. */
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

  /** Returns the number of the row that was added at place `at` (from 0). */
  rowAt(at: number): number {
    return this.#rows[at]!;
  }

  add(row: number, hash: Uint8Array, tokens: number): void {
    const at = this.#count++;
    this.#hashes[at] = hashPrefix(hash);
    this.#rows[at] = row;
    this.#tokens[at] = Math.min(tokens, 2 ** 32 - 1);
  }

  /** Sorts the index after the last row was added. */
  sort(): void {
    const [hashes, tokens] = [this.#hashes, this.#tokens];
    this.#byHash = this.#byHash.subarray(0, this.#count);
    this.#byLength = this.#byLength.subarray(0, this.#count);
    this.#byHash.sort((a, b) =>
      hashes[a]! < hashes[b]! ? -1 : hashes[a]! > hashes[b]! ? 1 : tokens[a]! - tokens[b]! || a - b,
    );
    this.#byLength.sort((a, b) => tokens[a]! - tokens[b]! || a - b);
  }

  /**
   * Returns the number of a row for a prompt. Takes one of the prompt's rows: one that fits, else a longer one, else any. If the
   * prompt has no row, takes one of all rows that fits, else any. `draw`: 32 bits that choose among several.
   */
  rowFor(hash: Uint8Array, { tokens, exactly }: Room, draw: number): number {
    const wanted = hashPrefix(hash);
    const from = firstPlace(this.#byHash, 0, (at) => this.#hashes[at]! >= wanted);
    const to = firstPlace(this.#byHash, from, (at) => this.#hashes[at]! > wanted);
    const own = this.#byHash.subarray(from, to);
    const order = own.length > 0 ? own : this.#byLength;
    const equal = firstPlace(order, 0, (at) => this.#tokens[at]! >= tokens);
    const longer = firstPlace(order, equal, (at) => this.#tokens[at]! > tokens);
    const fitting = order.subarray(exactly ? equal : 0, longer);
    const others = own.length > 0 && longer < own.length ? order.subarray(longer) : order;
    const chosen = fitting.length > 0 ? fitting : others;
    return this.#rows[chosen[Math.floor((draw / 2 ** 32) * chosen.length)]!]!;
  }
}

/** Returns the first 8 bytes of a hash. Among a million rows, two share them with a chance of 1 in 37 million. */
function hashPrefix(hash: Uint8Array): bigint {
  return new DataView(hash.buffer, hash.byteOffset, 8).getBigUint64(0);
}

/** Returns the first place from `from` for which `past` is true, by bisection. `past` must be true for all places after it. */
function firstPlace(order: Uint32Array, from: number, past: (at: number) => boolean): number {
  let [low, high] = [from, order.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (past(order[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}

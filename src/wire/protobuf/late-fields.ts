/**
 * Repeated fields and maps whose short elements stay encoded until they are needed. An object takes up to 100 times the memory of
 * such an element; its offset in the message takes four bytes.
 */
import type { MessageRoom } from "./message-room.ts";

/** Decodes an element whose length is at offset `start` of the message. */
export type ReadAgain<T> = (start: number) => T;

const FIRST_STARTS = 16;

/** A repeated field: first the elements that were decoded at once, then the late ones, which are decoded at each access. */
export class LateList<T extends object> implements Iterable<T> {
  /** Number of elements in `early` before the first late one. */
  readonly #earlyCount: number;
  /** Offset in the message of each further element, or `-1 - index` for one in `early`. */
  #starts = new Int32Array(0);
  #late = 0;

  /** Takes over `early`, which the caller must not change afterwards. Counts the memory of the offsets in `room`. */
  constructor(
    private readonly early: T[],
    private readonly readAgain: ReadAgain<T>,
    private readonly room: MessageRoom,
  ) {
    this.#earlyCount = early.length;
  }

  get length(): number {
    return this.#earlyCount + this.#late;
  }

  push(element: T): void {
    this.pushLate(-1 - this.early.length);
    this.early.push(element);
  }

  /** Appends the element whose length is at offset `start`. Throws a `MessageRefused`. */
  pushLate(start: number): void {
    if (this.#late === this.#starts.length) {
      const larger = Math.max(FIRST_STARTS, Math.ceil(1.5 * this.#late));
      this.room.take(4 * (larger - this.#late));
      const starts = new Int32Array(larger);
      starts.set(this.#starts);
      this.#starts = starts;
    }
    this.#starts[this.#late++] = start;
  }

  /** Returns an element, or undefined beyond the end. */
  at(index: number): T | undefined {
    const late = index - this.#earlyCount;
    if (late >= this.#late) return undefined;
    const start = late < 0 ? -1 - index : this.#starts[late]!;
    return start < 0 ? this.early[-1 - start]! : this.readAgain(start);
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = 0; at < this.length; at++) yield this.at(at)!;
  }
}

/** An entry of a map, decoded as a message. A key or value that was not sent is missing. */
export interface Entry {
  readonly key?: unknown;
  readonly value?: unknown;
}

/** A map: first the entries that were decoded at once, then the late ones, which are decoded at each access. */
export class LateMap<V = unknown> implements Iterable<readonly [unknown, V]> {
  /** Takes over `early`, which the caller must not change afterwards. */
  constructor(
    private readonly early: ReadonlyMap<unknown, V>,
    readonly late: LateList<Entry>,
  ) {}

  /** Number of entries, including those replaced by a later entry with the same key. */
  get size(): number {
    return this.early.size + this.late.length;
  }

  has(key: unknown): boolean {
    return this.#all().has(key);
  }

  /** Returns the value of a key, or undefined without one. */
  get(key: unknown): V | undefined {
    return this.#all().get(key);
  }

  [Symbol.iterator](): Iterator<[unknown, V]> {
    return this.#all().entries();
  }

  /** Decodes all entries. Of several entries with the same key, the last one counts. */
  #all(): Map<unknown, V> {
    const all = new Map(this.early);
    for (let at = 0; at < this.late.length; at++) addEntry(all, this.late.at(at)!);
    return all;
  }
}

const EMPTY = {};

/** Adds an entry to a map. A missing key or value becomes an empty string or an empty message. */
export function addEntry(map: Map<unknown, unknown>, { key = "", value = EMPTY }: Entry): void {
  map.set(key, value);
}

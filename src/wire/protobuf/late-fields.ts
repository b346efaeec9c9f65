/**
 * Repeated fields and maps whose short elements stay in the message until they are needed. An object takes up to 100 times
 * the bytes of such an element, its place in the message takes four bytes.
 */
import type { MessageRoom } from "./message-room.ts";

/** Reads the value of a field again, whose length stands at `start` in the message. */
export type ReadAgain<T> = (start: number) => T;

const FIRST_STARTS = 16;

/** A repeated field: the elements that were made first, then the others, which are read again each time. */
export class LateList<T extends object> implements Iterable<T> {
  readonly #made: T[];
  /** Elements in `#made` before the first late one. */
  readonly #firstMade: number;
  readonly #readAgain: ReadAgain<T>;
  readonly #room: MessageRoom;
  /** Place in the message of each further element, or `-1 - index` in `#made`. */
  #starts = new Int32Array(0);
  #late = 0;

  /** Continues `made`, which nobody else may change from then on. The memory of the places counts in `room`. */
  constructor(made: T[], readAgain: ReadAgain<T>, room: MessageRoom) {
    this.#made = made;
    this.#firstMade = made.length;
    this.#readAgain = readAgain;
    this.#room = room;
  }

  get length(): number {
    return this.#firstMade + this.#late;
  }

  push(element: T): void {
    this.pushLate(-1 - this.#made.length);
    this.#made.push(element);
  }

  /** Adds the element whose length stands at `start`. Throws a `MessageRefused`. */
  pushLate(start: number): void {
    if (this.#late === this.#starts.length) {
      const larger = Math.max(FIRST_STARTS, Math.ceil(1.5 * this.#late));
      this.#room.take(4 * (larger - this.#late));
      const starts = new Int32Array(larger);
      starts.set(this.#starts);
      this.#starts = starts;
    }
    this.#starts[this.#late++] = start;
  }

  /** Undefined: there are fewer. */
  at(index: number): T | undefined {
    const late = index - this.#firstMade;
    if (late >= this.#late) return undefined;
    const start = late < 0 ? -1 - index : this.#starts[late]!;
    return start < 0 ? this.#made[-1 - start]! : this.#readAgain(start);
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = 0; at < this.length; at++) yield this.at(at)!;
  }
}

/** An entry of a map as a message. A key or a value that did not come is missing. */
export interface Entry {
  readonly key?: unknown;
  readonly value?: unknown;
}

/** A map: the entries that were made first, then the others, which are read again each time. */
export class LateMap<V = unknown> implements Iterable<readonly [unknown, V]> {
  readonly #made: ReadonlyMap<unknown, V>;
  readonly late: LateList<Entry>;

  /** Continues `made`, which nobody may change from then on. */
  constructor(made: ReadonlyMap<unknown, V>, late: LateList<Entry>) {
    this.#made = made;
    this.late = late;
  }

  /** Entries, also those that another one with the same key replaces. */
  get size(): number {
    return this.#made.size + this.late.length;
  }

  has(key: unknown): boolean {
    return this.#all().has(key);
  }

  /** Undefined: no entry has the key. */
  get(key: unknown): V | undefined {
    return this.#all().get(key);
  }

  [Symbol.iterator](): Iterator<[unknown, V]> {
    return this.#all().entries();
  }

  /** The last of several entries with the same key counts. */
  #all(): Map<unknown, V> {
    const all = new Map(this.#made);
    for (let at = 0; at < this.late.length; at++) addEntry(all, this.late.at(at)!);
    return all;
  }
}

const EMPTY = {};

/** Adds an entry. A text that is missing is empty, and so is a message. */
export function addEntry(map: Map<unknown, unknown>, { key = "", value = EMPTY }: Entry): void {
  map.set(key, value);
}

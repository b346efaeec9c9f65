/**
 * What of the held copies has moved since a row was made last? A page repeats most of the page before it, so rows are
 * shown snapshots that tell what is read of them, and a row is made again only when something moves that it read. A page
 * asked for after a rest takes four times as long as one right behind another (0.45 and 0.1 ms after 25 ms, all of it
 * compiled): the processor's caches hold other work by then, so what is not done saves most. Neither the thread's priority
 * nor its kind of heap changed that.
 */
import type { Snapshot } from "../../engine/interface/types.ts";
import { Layout, type Shape } from "./flat.ts";

/** What somebody has read of the copies: cells, some perhaps more than once. */
export type Reads = number[];

export class Watched {
  /** One snapshot per held copy: its numbers are always those that were taken last. */
  readonly snapshots: readonly Snapshot[];
  /** Where a cell's numbers begin, and where they end. A cell is one number, or a list, which moves together. */
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  /** By cell: in which turn it moved last. */
  readonly #moved: Int32Array;
  /** Copies of our own: whoever writes the held ones may go on. */
  #numbers: Float64Array;
  #before: Float64Array;
  #turn = 0;
  #reads: Reads | null = null;

  constructor(shape: Shape, copies: number) {
    const layout = new Layout(shape);
    // A snapshot whose numbers are their own places.
    const places = Float64Array.from({ length: layout.length * copies }, (_, at) => at);
    this.snapshots = Array.from({ length: copies }, (_, copy) => this.#view(layout.read(places, copy * layout.length)));
    this.#moved = new Int32Array(this.#from.length);
    this.#numbers = new Float64Array(places.length);
    this.#before = new Float64Array(places.length);
  }

  /** The snapshots show these numbers from now on. Another thread may write them meanwhile: what is shown then, stays. */
  take(numbers: Float64Array): void {
    const [next, last] = [this.#before, this.#numbers];
    next.set(next.length === numbers.length ? numbers : numbers.subarray(0, next.length));
    this.#before = last;
    this.#numbers = next;
    this.#turn++;
    // By their bits: -0 is printed otherwise than 0, and NaN is no news.
    const [words, wordsBefore] = [wordsOf(next), wordsOf(last)];
    const moved = this.#moved;
    for (let cell = 0; cell < moved.length; cell++) {
      for (let at = 2 * this.#from[cell]!; at < 2 * this.#to[cell]!; at++) {
        if (words[at] === wordsBefore[at]) continue;
        moved[cell] = this.#turn;
        break;
      }
    }
  }

  /** Counts what was taken. */
  get turn(): number {
    return this.#turn;
  }

  /** Does something, and puts what it reads into `reads`, whose old content goes. */
  watch<T>(reads: Reads, act: () => T): T {
    reads.length = 0;
    this.#reads = reads;
    try {
      return act();
    } finally {
      this.#reads = null;
    }
  }

  /** Has any of it moved since that turn? */
  movedSince(turn: number, reads: Reads): boolean {
    for (let i = 0; i < reads.length; i++) if (this.#moved[reads[i]!]! > turn) return true;
    return false;
  }

  #view<T>(places: T): T {
    if (typeof places !== "object" || places === null) return places;
    if (Array.isArray(places)) return places.map((place) => this.#view(place)) as T;
    const view = {} as T;
    for (const [key, place] of Object.entries(places))
      Object.defineProperty(view, key, this.#property(places, key, place));
    return view;
  }

  #property(object: object, key: string, place: unknown): PropertyDescriptor {
    if (typeof place === "number") {
      if (key === "count" && "buckets" in object) return this.#sum(object.buckets as number[]);
      const cell = this.#cell(place, 1);
      const get = () => {
        this.#reads?.push(cell);
        return this.#numbers[place]!;
      };
      return { enumerable: true, get };
    }
    const isList = Array.isArray(place) && typeof place[0] === "number";
    if (!isList || key === "bounds") return { enumerable: true, value: isList ? place : this.#view(place) };
    return { enumerable: true, get: this.#list(place[0], place.length) };
  }

  /** Observations of a histogram are those of its buckets. */
  #sum(buckets: readonly number[]): PropertyDescriptor {
    const list = this.#list(buckets[0]!, buckets.length);
    return { enumerable: true, get: () => list().reduce((sum, bucket) => sum + bucket, 0) };
  }

  /** The array is the same one whenever it is asked for. */
  #list(from: number, length: number): () => readonly number[] {
    const cell = this.#cell(from, length);
    const list = Array<number>(length).fill(0);
    let turn = 0;
    return () => {
      this.#reads?.push(cell);
      if (turn < this.#moved[cell]!) {
        for (let i = 0; i < length; i++) list[i] = this.#numbers[from + i]!;
        turn = this.#turn;
      }
      return list;
    };
  }

  #cell(from: number, length: number): number {
    this.#to.push(from + length);
    return this.#from.push(from) - 1;
  }
}

const wordsOf = ({ buffer, byteOffset, length }: Float64Array) => new Int32Array(buffer, byteOffset, 2 * length);

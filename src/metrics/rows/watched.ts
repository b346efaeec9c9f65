/**
 * Tracks which numbers have changed since a row was last collected. Most of a page equals the page before. Rows
 * therefore read snapshots that record every access, and a row is only collected again if a number that it read has
 * changed. A page after a pause of 25 ms takes four times as long as a page right after another (0.45 and 0.1 ms). After the
 * pause the processor's caches hold other data. So avoiding work saves most; neither the thread's priority
 * nor its kind of heap made a difference.
 */
import type { Snapshot } from "../../engine/interface/types.ts";
import { Layout, type Shape } from "./flat.ts";

/** Cells that a row has read, possibly with repetitions. */
export type CellReads = number[];

export class ChangeTracker {
  /** One snapshot per copy. Their numbers are always those taken last. */
  readonly snapshots: readonly Snapshot[];
  /** First number of each cell and the number after its last. A cell is a single number or a list, which counts as changed as a whole. */
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  /** By cell: turn of its last change. */
  readonly #moved: Int32Array;
  /** Private copies, because the writer may overwrite the shared ones. */
  #numbers: Float64Array;
  #before: Float64Array;
  #turn = 0;
  #reads: CellReads | null = null;

  constructor(shape: Shape, copies: number) {
    const layout = new Layout(shape);
    // A snapshot whose numbers are their own indices.
    const places = Float64Array.from({ length: layout.length * copies }, (_, at) => at);
    this.snapshots = Array.from({ length: copies }, (_, copy) => this.#view(layout.read(places, copy * layout.length)));
    this.#moved = new Int32Array(this.#from.length);
    this.#numbers = new Float64Array(places.length);
    this.#before = new Float64Array(places.length);
  }

  /** Copies the numbers, which the snapshots show from now on. Another thread may overwrite the originals later. */
  take(numbers: Float64Array): void {
    const [next, last] = [this.#before, this.#numbers];
    next.set(next.length === numbers.length ? numbers : numbers.subarray(0, next.length));
    this.#before = last;
    this.#numbers = next;
    this.#turn++;
    // Compares bits, because -0 prints differently from 0, and an unchanged NaN is no change.
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

  /** Number of calls of `take`. */
  get turn(): number {
    return this.#turn;
  }

  /** Runs `act` and records the cells that it reads in `reads`, replacing their old content. */
  watch<T>(reads: CellReads, act: () => T): T {
    reads.length = 0;
    this.#reads = reads;
    try {
      return act();
    } finally {
      this.#reads = null;
    }
  }

  /** Returns true if any of these cells has changed after that turn. */
  movedSince(turn: number, reads: CellReads): boolean {
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

  /** Computes a histogram's count from its buckets. */
  #sum(buckets: readonly number[]): PropertyDescriptor {
    const list = this.#list(buckets[0]!, buckets.length);
    return { enumerable: true, get: () => list().reduce((sum, bucket) => sum + bucket, 0) };
  }

  /** Returns a function that always returns the same array, updated. */
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

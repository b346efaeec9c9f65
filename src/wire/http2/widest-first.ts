/**
 * Orders streams by the size of their windows, so that a change of all windows does not have to visit every stream. A binary
 * heap: each operation takes time logarithmic in the number of streams.
 */
import type { Http2Stream } from "./stream.ts";

interface Entry {
  readonly stream: Http2Stream;
  /** The stream's `extra` at the last look. The current value may be smaller. */
  extra: number;
  /** Index in the heap. */
  at: number;
}

export class WidestFirst {
  readonly #heap: Entry[] = [];
  readonly #entries = new Map<Http2Stream, Entry>();

  /** The stream with the widest window; undefined if there is no stream. */
  get first(): Http2Stream | undefined {
    for (;;) {
      const top = this.#heap[0];
      if (top === undefined || top.extra === top.stream.extra) return top?.stream;
      top.extra = top.stream.extra;
      this.#sink(top);
    }
  }

  /** Adds the stream, or moves it forward because its window has become wider. */
  add(stream: Http2Stream): void {
    let entry = this.#entries.get(stream);
    if (entry === undefined) {
      entry = { stream, extra: 0, at: this.#heap.length };
      this.#entries.set(stream, entry);
      this.#heap.push(entry);
    }
    entry.extra = stream.extra;
    this.#rise(entry);
    this.#sink(entry);
  }

  delete(stream: Http2Stream): void {
    const entry = this.#entries.get(stream);
    if (entry === undefined) return;
    this.#entries.delete(stream);
    const last = this.#heap.pop()!;
    if (last === entry) return;
    this.#put(last, entry.at);
    this.#rise(last);
    this.#sink(last);
  }

  clear(): void {
    this.#heap.length = 0;
    this.#entries.clear();
  }

  #put(entry: Entry, at: number): void {
    this.#heap[at] = entry;
    entry.at = at;
  }

  #rise(entry: Entry): void {
    while (entry.at > 0) {
      const { at } = entry;
      const parent = this.#heap[(at - 1) >> 1]!;
      if (parent.extra >= entry.extra) return;
      this.#put(entry, parent.at);
      this.#put(parent, at);
    }
  }

  #sink(entry: Entry): void {
    for (;;) {
      const { at } = entry;
      const [left, right] = [this.#heap[2 * at + 1], this.#heap[2 * at + 2]];
      const child = right !== undefined && right.extra > left!.extra ? right : left;
      if (child === undefined || child.extra <= entry.extra) return;
      this.#put(entry, child.at);
      this.#put(child, at);
    }
  }
}

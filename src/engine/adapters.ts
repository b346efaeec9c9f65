/** Numbers per LoRA adapter: the core's counts, and what vLLM's front end has learned. Both are as of the last update. */
import { Word } from "../../assembly/layout.ts";
import type { AdapterSnapshot } from "./interface/types.ts";
import type { LiveRequest } from "./live.ts";
import type { Core } from "./wasm/core.ts";

export class Adapters {
  readonly #core: Core;
  /** By adapter number minus one. Adapters that no request has used yet are 0. */
  readonly snapshots: { -readonly [Key in keyof AdapterSnapshot]: number }[] = [];
  /** Live requests with output, and the rank of the adapter's first such request. */
  readonly #heard: { count: number; rank: number }[] = [];
  #ranks = 0;
  /** The largest adapter number of any request. Each update reads the counts up to it. */
  #known = 0;

  /** `places`: adapters with numbers from 1 to this exist from the start, others from their first request. */
  constructor(core: Core, places: number) {
    this.#core = core;
    this.#place(places);
  }

  know(adapter: number): void {
    if (adapter <= this.#known) return;
    this.#known = adapter;
    this.#place(adapter);
  }

  #place(count: number): void {
    while (this.snapshots.length < count) {
      this.snapshots.push({ running: 0, waiting: 0, heard: 0 });
      this.#heard.push({ count: 0, rank: 0 });
    }
  }

  /** Records the first output of a request, by which vLLM's front end learns that the request was queued and scheduled. */
  first(live: LiveRequest): void {
    if (live.adapter === 0 || live.heard) return;
    live.heard = true;
    const heard = this.#heard[live.adapter - 1]!;
    if (heard.count++ === 0) heard.rank = ++this.#ranks;
  }

  ended(live: LiveRequest): void {
    if (live.heard) this.#heard[live.adapter - 1]!.count--;
    live.heard = false;
  }

  /** Copies the counts at the end of a step. */
  hold(): void {
    const { snapshots } = this;
    if (this.#known === 0) return;
    const { views } = this.#core;
    const running = (views.word(Word.AdapterRunningAt) >>> 0) >> 2;
    const waiting = (views.word(Word.AdapterWaitingAt) >>> 0) >> 2;
    for (let i = 0; i < this.#known; i++) {
      const { count, rank } = this.#heard[i]!;
      snapshots[i]!.running = views.i32[running + i + 1]!;
      snapshots[i]!.waiting = views.i32[waiting + i + 1]!;
      snapshots[i]!.heard = count > 0 ? rank : 0;
    }
  }
}

/** Who uses which LoRA adapter? Counts of the core, and what vLLM's front end has heard of; both as the last update left them. */
import { Word } from "../../assembly/layout.ts";
import type { AdapterSnapshot } from "./interface/types.ts";
import type { LiveRequest } from "./live.ts";
import type { Core } from "./wasm/core.ts";

export class Adapters {
  readonly #core: Core;
  /** By number minus one, as they are shown; those not known yet have nothing to show. */
  readonly held: { -readonly [Key in keyof AdapterSnapshot]: number }[] = [];
  /** Live requests that have given output, and the rank of the first of them. */
  readonly #heard: { count: number; rank: number }[] = [];
  #ranks = 0;
  /** The largest number that a request has had: each step looks at so many. */
  #known = 0;

  /** `places`: numbers from 1 to this are shown from the start; larger ones once they come. */
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
    while (this.held.length < count) {
      this.held.push({ running: 0, waiting: 0, heard: 0 });
      this.#heard.push({ count: 0, rank: 0 });
    }
  }

  /** First output of a request: vLLM's front learns with it that the request was queued and scheduled. */
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

  /** The end of a step. */
  hold(): void {
    const { held } = this;
    if (this.#known === 0) return;
    const { views } = this.#core;
    const running = (views.word(Word.AdapterRunningAt) >>> 0) >> 2;
    const waiting = (views.word(Word.AdapterWaitingAt) >>> 0) >> 2;
    for (let i = 0; i < this.#known; i++) {
      const { count, rank } = this.#heard[i]!;
      held[i]!.running = views.i32[running + i + 1]!;
      held[i]!.waiting = views.i32[waiting + i + 1]!;
      held[i]!.heard = count > 0 ? rank : 0;
    }
  }
}

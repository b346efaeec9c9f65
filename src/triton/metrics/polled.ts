/** What moves on Triton's metrics page only every half of `--metrics-interval-ms`? The machine, and the cache's own gauges. */
import { type Host, HostLook, NOTHING } from "../../metrics/triton/poll.ts";
import type { CacheCounts } from "../server/cache.ts";

export interface PolledValues {
  /** The first poll comes after the first half interval; all is 0 until then. */
  readonly polled: boolean;
  readonly host: Host;
  readonly cache: CacheCounts | null;
}

/** A scrape polls, when the time has come. */
export class Polling {
  readonly #look = new HostLook();
  readonly #intervalUs: number;
  readonly #fromUs: number;
  #turn = 0;
  #values: PolledValues;

  constructor(intervalMs: number, nowUs: number, cache: CacheCounts | null) {
    this.#intervalUs = intervalMs * 500;
    this.#fromUs = nowUs;
    const nothing = { entries: 0, usedBytes: 0, hits: 0, misses: 0, evictions: 0, lookupUs: 0, insertionUs: 0 };
    this.#values = { polled: false, host: NOTHING, cache: cache && { ...cache, ...nothing } };
  }

  take(nowUs: number, cpu: boolean, cache: CacheCounts | null): PolledValues {
    const turn = Math.floor((nowUs - this.#fromUs) / this.#intervalUs);
    if (turn === this.#turn) return this.#values;
    this.#turn = turn;
    this.#values = { polled: true, host: cpu ? this.#look.take() : NOTHING, cache: cache && { ...cache } };
    return this.#values;
  }
}

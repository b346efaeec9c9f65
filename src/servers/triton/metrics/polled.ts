/** What moves on Triton's metrics page only every half of `--metrics-interval-ms`? Machine, GPUs, and the cache's own gauges. */
import { type Host, HostSampler, NOTHING } from "../../../metrics/triton/poll.ts";
import type { CacheCounts } from "../inference/cache.ts";
import { type GpuFacts, type GpuUse, type PolledGpu, pollGpus } from "./gpus.ts";

export interface PolledValues {
  /** The first poll comes after the first half interval; all is 0 until then. */
  readonly polled: boolean;
  readonly host: Host;
  readonly gpus: readonly PolledGpu[];
  readonly cache: CacheCounts | null;
}

/** A scrape polls, when the time has come. */
export class Polling {
  readonly #look = new HostSampler();
  readonly #intervalUs: number;
  readonly #fromUs: number;
  readonly #facts: GpuFacts;
  #turn = 0;
  #polledUs: number;
  #values: PolledValues;

  constructor(intervalMs: number, nowUs: number, cache: CacheCounts | null, facts: GpuFacts) {
    this.#intervalUs = intervalMs * 500;
    this.#fromUs = nowUs;
    this.#polledUs = nowUs;
    this.#facts = facts;
    const nothing = { entries: 0, usedBytes: 0, hits: 0, misses: 0, evictions: 0, lookupUs: 0, insertionUs: 0 };
    this.#values = { polled: false, host: NOTHING, gpus: [], cache: cache && { ...cache, ...nothing } };
  }

  /** `gpus`: null where they are not shown. */
  take(nowUs: number, cpu: boolean, cache: CacheCounts | null, gpus: readonly GpuUse[] | null): PolledValues {
    const turn = Math.floor((nowUs - this.#fromUs) / this.#intervalUs);
    if (turn === this.#turn) return this.#values;
    this.#turn = turn;
    this.#values = {
      polled: true,
      host: cpu ? this.#look.take() : NOTHING,
      gpus: pollGpus(gpus ?? [], this.#values.gpus, this.#facts, this.#polledUs, nowUs),
      cache: cache && { ...cache },
    };
    this.#polledUs = nowUs;
    return this.#values;
  }
}

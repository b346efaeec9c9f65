/**
 * Stores the metrics that change only every half `--metrics-interval-ms`: CPU, memory, GPUs and the gauges of the response
 * cache.
 */
import { type Host, HostSampler, NOTHING } from "../../../metrics/triton/poll.ts";
import { CacheCounts } from "../inference/cache.ts";
import { type GpuFacts, type GpuUse, type PolledGpu, pollGpus } from "./gpus.ts";

export interface MachineValues {
  /** False before the first poll, half an interval after the start. All values are 0 until then. */
  readonly polled: boolean;
  readonly host: Host;
  readonly gpus: readonly PolledGpu[];
  readonly cache: CacheCounts | null;
}

/** Polls during a scrape if the half interval has passed. */
export class Polling {
  readonly #look = new HostSampler();
  readonly #intervalUs: number;
  #turn = 0;
  #polledUs: number;
  #values: MachineValues;

  constructor(
    intervalMs: number,
    private readonly fromUs: number,
    cache: CacheCounts | null,
    private readonly facts: GpuFacts,
  ) {
    this.#intervalUs = intervalMs * 500;
    this.#polledUs = fromUs;
    this.#values = { polled: false, host: NOTHING, gpus: [], cache: cache && new CacheCounts(cache.sizeBytes) };
  }

  /** Returns the values of the last poll. `gpus`: null if GPU metrics are off. */
  take(nowUs: number, cpu: boolean, cache: CacheCounts | null, gpus: readonly GpuUse[] | null): MachineValues {
    const turn = Math.floor((nowUs - this.fromUs) / this.#intervalUs);
    if (turn === this.#turn) return this.#values;
    this.#turn = turn;
    this.#values = {
      polled: true,
      host: cpu ? this.#look.take() : NOTHING,
      gpus: pollGpus(gpus ?? [], this.#values.gpus, this.facts, this.#polledUs, nowUs),
      cache: cache && { ...cache },
    };
    this.#polledUs = nowUs;
    return this.#values;
  }
}

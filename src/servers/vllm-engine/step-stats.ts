/** Makes the statistics of the scheduler that a front end shows on its page of metrics, from the numbers of the core. */
import type { EngineView } from "../../engine/interface/types.ts";
import type { EngineAdapters } from "./adapters.ts";
import type { PrefixCacheStats, SchedulerStats } from "./messages/stats.ts";

/** Totals of the prefix cache that statistics report as differences. */
const TOTALS = ["prefixQueries", "prefixHits", "preemptedQueries", "preemptedHits"] as const;
type Totals = Readonly<Record<(typeof TOTALS)[number], number>>;

const totalsOf = (view: EngineView): Totals =>
  Object.fromEntries(TOTALS.map((name) => [name, view[name]])) as Record<keyof Totals, number>;

export class StepStats {
  #last: Totals;
  /** Numbers of running, waiting and deferred requests in the last statistics. */
  #counts: readonly [running: number, waiting: number, deferred: number] = [0, 0, 0];
  #requests = 0;

  /** `view`: returns the numbers of the engine as of its last step. */
  constructor(
    private readonly view: () => EngineView,
    private readonly adapters: Pick<EngineAdapters, "names">,
  ) {
    this.#last = totalsOf(view());
  }

  /** Notes that a request has been scheduled for the first time. */
  scheduled(): void {
    this.#requests++;
  }

  /** True if numbers of requests differ from those of the last statistics. */
  get hasMoved(): boolean {
    const { running, waiting, deferred } = this.view();
    const [lastRunning, lastWaiting, lastDeferred] = this.#counts;
    return running !== lastRunning || waiting !== lastWaiting || deferred !== lastDeferred;
  }

  /** Returns the statistics since the last call. */
  next(): SchedulerStats {
    const view = this.view();
    this.#counts = [view.running, view.waiting, view.deferred];
    return {
      num_running_reqs: view.running,
      num_waiting_reqs: view.waiting,
      num_skipped_waiting_reqs: view.deferred,
      num_kv_fetch_reqs_by_stage: {},
      step_counter: 0,
      current_wave: 0,
      kv_cache_usage: view.kvUsage,
      iteration_details: null,
      prefix_cache_stats: this.#prefixCache(view),
      connector_prefix_cache_stats: null,
      kv_cache_eviction_events: [],
      spec_decoding_stats: null,
      kv_connector_stats: null,
      ec_connector_stats: null,
      waiting_lora_adapters: this.#byAdapter(view, "waiting"),
      running_lora_adapters: this.#byAdapter(view, "running"),
      cudagraph_stats: null,
      perf_stats: null,
    };
  }

  /** Returns the numbers of requests by adapter, without zeros. */
  #byAdapter(view: EngineView, state: "waiting" | "running"): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const [at, name] of this.adapters.names.entries()) {
      const count = view.adapters[at]?.[state] ?? 0;
      if (count > 0) counts[name] = (counts[name] ?? 0) + count;
    }
    return counts;
  }

  #prefixCache(view: EngineView): PrefixCacheStats {
    const now = totalsOf(view);
    const since = (name: keyof Totals) => now[name] - this.#last[name];
    const stats: PrefixCacheStats = {
      reset: false,
      requests: this.#requests,
      queries: since("prefixQueries"),
      hits: since("prefixHits"),
      preempted_requests: 0,
      preempted_queries: since("preemptedQueries"),
      preempted_hits: since("preemptedHits"),
      hits_by_source: {},
    };
    this.#last = now;
    this.#requests = 0;
    return stats;
  }
}

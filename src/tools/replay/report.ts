/** What does the page of `load` show of a replay? The same plots, from the engines' histograms, the rows over time and a sample of requests. */
import { fineMiddle } from "../../engine/fine.ts";
import type { EngineSnapshot, HistogramName } from "../../engine/interface/types.ts";
import type { Distribution, Moment, Result, ServerMoment } from "../report/index.ts";
import { addedUp } from "./percentiles.ts";
import type { Counts, Replay } from "./replay.ts";
import type { Results } from "./results.ts";

/** Rows over time that are kept; of more, every second one is dropped. */
const MOMENTS_MOST = 4096;
const PERCENTILES = [50, 90, 95, 99] as const;

const DEFINITIONS = {
  ttft: "time to first token: from arrival to the end of the step that gave it, as vLLM's histogram counts",
  itl: "inter-token latency: between the steps of two tokens; tokens of one step have 0 between them",
  tpot: "time per output token: from the first token to the last, divided by the tokens after the first; requests with more than one",
  e2el: "from arrival to the last token",
  queue: "from the entry into the queue to the first step that scheduled it, as vLLM's histogram counts",
  time: "all of it is simulated; percentiles come from histograms and are within 0.4 %",
};

/** Load and pool over simulated time, within a stated size. */
export class Moments {
  readonly run: Moment[] = [];
  readonly server: ServerMoment[] = [];
  #stride = 1;
  #rows = 0;

  row(atUs: number, engines: readonly EngineSnapshot[], counts: Counts): void {
    if (this.#rows++ % this.#stride !== 0) return;
    const sum = (pick: (engine: EngineSnapshot) => number) => engines.reduce((total, one) => total + pick(one), 0);
    const [t, running, waiting] = [atUs / 1e6, sum((one) => one.running), sum((one) => one.waiting + one.deferred)];
    const completed = counts.finished + counts.left;
    const tokens = sum((one) => one.generationTokens);
    this.run.push({ t, running: running + waiting, sent: counts.arrived, completed, output_tokens: tokens });
    const usage = sum((one) => one.blocksUsed) / sum((one) => one.blocksUsable);
    this.server.push({ t, running, waiting, kv_usage: usage, preemptions: sum((one) => one.preemptions) });
    if (this.run.length > MOMENTS_MOST) this.#thin();
  }

  #thin(): void {
    this.#stride *= 2;
    for (const list of [this.run, this.server] as { t: number }[][]) {
      list.splice(0, list.length, ...list.filter((_, at) => at % 2 === 0));
    }
  }
}

export interface Shown {
  readonly command: string;
  readonly version: string;
  readonly moments: Moments;
  /** How many requests the records are a sample of. */
  readonly requests: number;
}

export function reportOf(replay: Replay, results: Results, { command, version, moments, requests }: Shown): Result {
  const { requests: counts, tokens, throughput, prefix_cache: cache, kv, engine } = results;
  const failed = {
    "left by their clients": counts.left,
    unfinished: counts.unfinished,
    "longer than max_model_len": counts.refused.too_long,
    "queue full": counts.refused.busy,
  };
  return {
    model_id: results.model,
    duration: results.duration_s,
    completed: counts.finished,
    failed: counts.arrived - counts.finished,
    total_input_tokens: tokens.prompt,
    total_output_tokens: tokens.generated,
    request_throughput: throughput.requests_per_s,
    output_throughput: throughput.output_tokens_per_s,
    total_token_throughput: throughput.total_tokens_per_s,
    prompt_tokens_cached: tokens.prompt_cached,
    prefix_cache_hit_rate: cache.hit_rate,
    preemptions: results.preemptions,
    kv_blocks_peak: kv.blocks_peak,
    kv_blocks_usable: kv.blocks_usable,
    steps: results.steps,
    understudy: {
      schema_version: results.schema,
      title: `Replay of ${results.trace.name.split("/").at(-1)}`,
      command,
      definitions: DEFINITIONS,
      versions: { understudy: version },
      metadata: {
        timing: results.timing,
        engines: results.engines,
        trace: results.trace.format,
        max_num_seqs: engine.maxNumSeqs,
        max_num_batched_tokens: engine.maxNumBatchedTokens,
        "KV blocks": kv.blocks_usable,
        "block size": engine.blockSize,
      },
      requests,
      errors: failed,
      distributions: {
        ttft: distribution(replay, "timeToFirstToken"),
        itl: distribution(replay, "interTokenLatency"),
        // vLLM counts 0 for a request with one token.
        tpot: distribution(replay, "timePerOutputToken", true),
        e2el: distribution(replay, "e2eLatency"),
        queue: distribution(replay, "queueTime"),
      },
      timeseries: moments.run,
      server_metrics: { timeseries: moments.server },
    },
  };
}

/** Distribution over all engines together, ms. Percentiles are the nearest rank's bucket, as in the results. */
function distribution(replay: Replay, name: HistogramName, skipZero = false): Distribution {
  const engines = replay.fleet.engines.map((engine) => engine.fine(name));
  const { counts, sum, count, at } = addedUp(engines, skipZero);
  if (count === 0) return { count, mean: null };
  const filled = [...counts.keys()].filter((bucket) => counts[bucket]! > 0);
  const bounds = filled.map((bucket) => fineMiddle(bucket) / 1000);
  return {
    count,
    mean: sum / count / 1000,
    min: bounds[0]!,
    max: bounds.at(-1)!,
    ...Object.fromEntries(PERCENTILES.map((q) => [`p${q}`, at(q / 100) / 1000])),
    histogram: { bounds, counts: filled.map((bucket) => counts[bucket]!) },
  };
}

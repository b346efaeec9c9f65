/** Builds the HTML report of a replay, with the plots of `understudy load`, from histograms, rows over time and sampled requests. */

import { fineMiddle } from "../../engine/fine.ts";
import type { EngineSnapshot, HistogramName } from "../../engine/interface/types.ts";
import type { Distribution, Moment, Result, ServerMoment } from "../report/index.ts";
import { combinedHistogram } from "./percentiles.ts";
import type { Counts, Replay } from "./replay.ts";
import type { Results } from "./results.ts";
import { sumsOf } from "./series.ts";

/** Most rows over time. With more, every second row is dropped. */
const MOMENTS_MOST = 4096;
const PERCENTILES = [50, 90, 95, 99] as const;

const DEFINITIONS = {
  ttft: "time to first token: from arrival to the end of the step that generated it, as in vLLM's histogram",
  itl: "inter-token latency: between the steps of two tokens; tokens of one step have 0 between them",
  tpot: "time per output token: from the first token to the last, divided by the tokens after the first; requests with more than one",
  e2el: "from arrival to the last token",
  queue: "from the entry into the queue to the first step that scheduled it, as in vLLM's histogram",
  time: "all times are simulated; percentiles come from histograms and are within 0.4 %",
};

/** Load and KV pool over simulated time, in at most MOMENTS_MOST rows. */
export class Moments {
  readonly run: Moment[] = [];
  readonly server: ServerMoment[] = [];
  #stride = 1;
  #rows = 0;

  row(atUs: number, engines: readonly EngineSnapshot[], counts: Counts): void {
    if (this.#rows++ % this.#stride !== 0) return;
    const t = atUs / 1e6;
    const { running, waiting, kv_usage, preemptions, generation_tokens: tokens } = sumsOf(engines, counts);
    const completed = counts.finished + counts.left;
    this.run.push({ t, running: running + waiting, sent: counts.arrived, completed, output_tokens: tokens });
    this.server.push({ t, running, waiting, kv_usage, preemptions });
    if (this.run.length > MOMENTS_MOST) this.#thin();
  }

  #thin(): void {
    this.#stride *= 2;
    for (const list of [this.run, this.server] as { t: number }[][]) {
      list.splice(0, list.length, ...list.filter((_, at) => at % 2 === 0));
    }
  }
}

export interface ReportInput {
  readonly command: string;
  readonly version: string;
  readonly moments: Moments;
  /** Number of all requests, from which the records are sampled. */
  readonly requests: number;
}

export function reportOf(
  replay: Replay,
  results: Results,
  { command, version, moments, requests }: ReportInput,
): Result {
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

/** Returns the distribution over all engines in ms. Percentiles are computed as in the results. */
function distribution(replay: Replay, name: HistogramName, skipZero = false): Distribution {
  const engines = replay.fleet.engines.map((engine) => engine.fine(name));
  const { counts, sum, count, at } = combinedHistogram(engines, skipZero);
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

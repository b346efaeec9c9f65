/**
 * Metrics page of vLLM 0.33's front end in Rust (`vllm-rs`): its families in its order, with our numbers. Most families are
 * those of the Python server. Their series appear later here: most exist once the engine has received a request. Recorded
 * from the program of the 0.33.0 wheel.
 */
import { type EngineSnapshot, Finish, type HistogramSnapshot } from "../../engine/interface/types.ts";
import { HTTP_WIDTH, HttpWord } from "../rows/http-counts.ts";
import { counter, gauge, histogram, type Proof, type Row, type Series, type SeriesReader } from "../rows/table.ts";
import type { Labels, Sample } from "../rows/text.ts";
import { http } from "./http.ts";
import { each, eachBy, engineLabels, NO_CONNECTOR, vllmRows, zero } from "./vllm.ts";

const TESTED: Proof = { moves: "test/metrics/vllm/vllm-rs.recorded.test.ts" };
const NO_SPECULATION: Proof = { still: "there is no speculation" };
const NO_BLOCK_TIMES: Proof = { still: "the core keeps no times of blocks" };
const NO_LOGITS: Proof = { still: "there are no logits" };
const NO_WEIGHTS: Proof = { still: "the routes that load weights do not exist here" };

/** Returns true if the page has this series of an engine. */
type Presence = (sample: Sample, engine: EngineSnapshot) => boolean;

const hasReceived: Presence = (_, { running, waiting, deferred, finished, promptTokens }) =>
  running + waiting + deferred + promptTokens > 0 || finished.some((count) => count > 0);
const hasCounted: Presence = ({ value }) => value > 0;

interface Change {
  /** Help text. The crate adds a period, so that most texts end in two. Absent: that of the Python server. */
  readonly help?: string;
  /** Absent: the series exist from the start. Values of `--fake-metrics` are always shown. */
  readonly presence?: Presence;
  /** True if `--disable-log-stats` leaves out the series. */
  readonly ofStats?: true;
}

function changed(row: Row, { help = row.help, presence, ofStats }: Change): Row {
  const { created: _, ...kept } = row;
  return {
    ...kept,
    help: `${help}.`,
    samples: (snapshot, identity) => {
      if (ofStats && identity.disableLogStats) return [];
      const samples = row.samples(snapshot, identity);
      if (presence === undefined || identity.fakes !== undefined) return samples;
      return samples.filter((sample) =>
        presence(sample, snapshot.engines[Number(sample.labels.engine) - identity.engineFirst]!),
      );
    },
    proof: "moves" in row.proof ? TESTED : row.proof,
  };
}

const pythonRows = new Map([...vllmRows, ...http].map((row) => [row.name, row]));
const shared = (name: string, change: Change = {}): Row => changed(pythonRows.get(name)!, change);
const vllm = (name: string, change: Change = {}): Row => shared(`vllm:${name}`, change);

/** A family of the scheduler's statistics, whose help text ends in one period. */
const stats = (name: string, help?: string): Row => vllm(name, { ofStats: true, ...(help ? { help } : {}) });
const ofRequests = (name: string, help?: string): Row =>
  vllm(name, { presence: hasReceived, ...(help ? { help } : {}) });
/** A family that needs the events of the scheduler. */
const ofEvents = (name: string): Row => vllm(name, { presence: hasReceived, ofStats: true });

const still = (name: string, help: string, proof: Proof): Row =>
  changed(counter("step", `vllm:${name}_total`, help, each(zero), proof), { ofStats: true });
const stillHistogram = (name: string, help: string, bounds: readonly number[], proof: Proof): Row => {
  const none: HistogramSnapshot = { bounds, buckets: Array(bounds.length + 1).fill(0), sum: 0, count: 0 };
  const read: SeriesReader<HistogramSnapshot> = ({ engines }, identity) =>
    engines.map((_, index) => [engineLabels(identity, index), none]);
  return changed(histogram("step", `vllm:${name}`, help, read, proof), { ofStats: true });
};
const empty = (make: typeof gauge | typeof histogram, name: string, help: string, proof: Proof): Row =>
  changed(
    make("step", `vllm:${name}`, help, () => [], proof),
    {},
  );

const BLOCK_S = [
  ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800],
];
const TRANSFER_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5];
const TRANSFER_BYTES = Array.from({ length: 12 }, (_, at) => 2 ** (11 + 2 * at));
const DESCRIPTORS = [10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10_000, 20_000, 50_000];
const SLEEP_S = [0.01, 0.1, 1, 10, 30, 60, 120, 300, 600];

const SAMPLED = "Sampled metrics (controlled by --kv-cache-metrics-sample).";
const EXPIRED = "Number of requests that had their KV expire. NOTE: This metric is tracked on the P instance.";

const SLEEP_ROUTES = { sleep: "/sleep", wake: "/wake_up" } as const;

/** Reads the completed sleep operations from the counts of their routes. The engine sleeps and wakes at once. */
const sleepOperations =
  <Value>(from: (count: number) => Value): SeriesReader<Value> =>
  ({ front }, identity) =>
    Object.entries(SLEEP_ROUTES).flatMap(([operation, path]): readonly Series<Value>[] => {
      const at = identity.http.findIndex(({ handler, method }) => handler === path && method === "POST");
      const count = at < 0 ? 0 : front.http.routes[at * HTTP_WIDTH + HttpWord.answers + 1]!;
      return count > 0 ? [[{ operation }, from(count)]] : [];
    });

/** Lists the adapters that run and wait now, sorted by name. The series vanishes without any. */
const loraInfo: SeriesReader<number> = ({ engines }, { adapters, startedS }) => {
  const named = (number: "running" | "waiting") =>
    adapters.filter((_, index) => engines.some((engine) => (engine.adapters[index]?.[number] ?? 0) > 0)).sort();
  const [running, waiting] = [named("running"), named("waiting")];
  if (running.length + waiting.length === 0) return [];
  const labels: Labels = {
    running_lora_adapters: running.join(","),
    waiting_lora_adapters: waiting.join(","),
  };
  return [[labels, startedS + Math.max(...engines.map(({ takenUs }) => takenUs)) / 1e6]];
};

export const vllmRs: readonly Row[] = [
  stats("num_requests_running", "Number of requests in model execution batches"),
  stats("num_requests_waiting", "Number of requests waiting to be processed"),
  stats("num_requests_waiting_by_reason"),
  { ...stats("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage"), floats: true },
  {
    ...changed(gauge("step", "vllm:lora_requests_info", "Running stats on lora requests.", loraInfo, TESTED), {
      ofStats: true,
    }),
    floats: true,
  },
  stats("prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens"),
  stats("prefix_cache_hits_total"),
  stats("external_prefix_cache_queries_total"),
  stats("prompt_tokens_cached_by_source_total"),
  stats("external_prefix_cache_hits_total"),
  still("spec_decode_num_drafts", "Number of spec decoding drafts.", NO_SPECULATION),
  still("spec_decode_num_draft_tokens", "Number of draft tokens.", NO_SPECULATION),
  still("spec_decode_num_accepted_tokens", "Number of accepted tokens.", NO_SPECULATION),
  empty(
    counter,
    "spec_decode_num_accepted_tokens_per_pos_total",
    "Accepted tokens per draft position.",
    NO_SPECULATION,
  ),
  stats("estimated_flops_per_gpu_total"),
  stats("estimated_read_bytes_per_gpu_total"),
  stats("estimated_write_bytes_per_gpu_total"),
  stillHistogram(
    "kv_block_lifetime_seconds",
    `Histogram of KV cache block lifetime from allocation to eviction. ${SAMPLED}`,
    BLOCK_S,
    NO_BLOCK_TIMES,
  ),
  stillHistogram(
    "kv_block_idle_before_evict_seconds",
    `Histogram of idle time before KV cache block eviction. ${SAMPLED}`,
    BLOCK_S,
    NO_BLOCK_TIMES,
  ),
  stillHistogram(
    "kv_block_reuse_gap_seconds",
    `Histogram of time gaps between consecutive KV cache block accesses. Only the most recent accesses are recorded (ring buffer). ${SAMPLED}`,
    BLOCK_S,
    NO_BLOCK_TIMES,
  ),
  empty(
    histogram,
    "mooncake_store_operation_time_seconds",
    "Histogram of Mooncake store communication time.",
    NO_CONNECTOR,
  ),
  ...(
    [
      ["mooncake_store_operation_total", "Number of Mooncake store communication operations."],
      ["mooncake_store_operation_keys_total", "Number of Mooncake store keys touched by operations."],
      ["mooncake_store_operation_bytes_total", "Number of bytes transferred by Mooncake store operations."],
      ["mooncake_store_operation_failed_keys_total", "Number of Mooncake store keys that failed in operations."],
    ] as const
  ).map(([name, help]) => empty(counter, name, help, NO_CONNECTOR)),
  stillHistogram(
    "mooncake_xfer_time_seconds",
    "Histogram of transfer duration for Mooncake KV Cache transfers.",
    TRANSFER_S,
    NO_CONNECTOR,
  ),
  stillHistogram(
    "mooncake_bytes_transferred",
    "Histogram of bytes transferred per Mooncake KV Cache transfer.",
    TRANSFER_BYTES,
    NO_CONNECTOR,
  ),
  stillHistogram(
    "mooncake_num_descriptors",
    "Histogram of number of descriptors per Mooncake KV Cache transfer.",
    DESCRIPTORS,
    NO_CONNECTOR,
  ),
  still("mooncake_num_failed_transfers", "Number of failed Mooncake KV Cache transfers.", NO_CONNECTOR),
  still("mooncake_num_failed_recvs", "Number of failed Mooncake KV Cache receives.", NO_CONNECTOR),
  still("mooncake_num_kv_expired_reqs", EXPIRED, NO_CONNECTOR),
  stillHistogram(
    "nixl_xfer_time_seconds",
    "Histogram of transfer duration for NIXL KV Cache transfers.",
    TRANSFER_S,
    NO_CONNECTOR,
  ),
  stillHistogram(
    "nixl_post_time_seconds",
    "Histogram of transfer post time for NIXL KV Cache transfers.",
    [0.001, ...TRANSFER_S],
    NO_CONNECTOR,
  ),
  stillHistogram(
    "nixl_bytes_transferred",
    "Histogram of bytes transferred per NIXL KV Cache transfers.",
    TRANSFER_BYTES,
    NO_CONNECTOR,
  ),
  stillHistogram(
    "nixl_num_descriptors",
    "Histogram of number of descriptors per NIXL KV Cache transfers.",
    DESCRIPTORS,
    NO_CONNECTOR,
  ),
  still("nixl_num_failed_transfers", "Number of failed NIXL KV Cache transfers.", NO_CONNECTOR),
  still("nixl_num_failed_notifications", "Number of failed NIXL KV Cache notifications.", NO_CONNECTOR),
  still("nixl_num_kv_expired_reqs", EXPIRED, NO_CONNECTOR),
  vllm("iteration_tokens_total", {
    help: "Histogram of computed prompt and generated tokens per nonempty engine output batch.",
  }),
  vllm("num_preemptions_total", { help: "Cumulative number of preemption events.", ofStats: true }),
  ofRequests("prompt_tokens_total"),
  vllm("prompt_tokens_by_source_total", {
    presence: (sample, engine) => sample.labels.source === "local_compute" || hasReceived(sample, engine),
  }),
  ofRequests("prompt_tokens_cached_total", "Number of prompt tokens with prefix cache hits."),
  vllm("generation_tokens_total"),
  changed(
    counter(
      "step",
      "vllm:corrupted_requests_total",
      "Corrupted requests, in terms of total number of requests with NaNs in logits.",
      each(zero),
      NO_LOGITS,
    ),
    { presence: hasReceived },
  ),
  changed(
    counter(
      "step",
      "vllm:request_success_total",
      pythonRows.get("vllm:request_success_total")!.help,
      // Unlike the Python server, it also counts a request whose client disconnected.
      eachBy("finished_reason", {
        stop: (e) => e.finished[Finish.Stop],
        length: (e) => e.finished[Finish.Length],
        abort: (e) => e.finished[Finish.Abort],
        error: (e) => e.finished[Finish.Error],
        repetition: (e) => e.finished[Finish.Repetition],
      }),
      TESTED,
    ),
    { presence: hasCounted },
  ),
  ofRequests("request_prompt_tokens"),
  ofRequests("request_generation_tokens"),
  ofRequests("request_max_num_generation_tokens"),
  ofRequests("request_params_max_tokens"),
  ofRequests("request_params_n"),
  ofEvents("request_num_preemptions"),
  ofRequests("request_prefill_kv_computed_tokens"),
  ofRequests("time_to_first_token_seconds"),
  ofRequests("inter_token_latency_seconds"),
  ofRequests("e2e_request_latency_seconds"),
  ofEvents("request_queue_time_seconds"),
  ofEvents("request_prefill_time_seconds"),
  ofRequests("request_decode_time_seconds"),
  ofEvents("request_inference_time_seconds"),
  ofRequests("request_time_per_output_token_seconds"),
  shared("http_requests_total", { help: "Total number of HTTP requests by method, status, and handler." }),
  shared("http_request_duration_seconds", {
    help: "Duration of HTTP requests in seconds grouped by method and handler.",
  }),
  shared("http_request_duration_highr_seconds", { help: "High-resolution duration of HTTP requests in seconds." }),
  empty(
    histogram,
    "rl_weight_update_operation_duration_seconds",
    "Duration of one weight-transfer operation.",
    NO_WEIGHTS,
  ),
  empty(gauge, "rl_weight_update_operations_in_flight", "Weight-transfer operations currently awaited.", NO_WEIGHTS),
  changed(
    histogram(
      "now",
      "vllm:sleep_mode_operation_duration_seconds",
      "Duration of one sleep-mode operation.",
      sleepOperations((count) => ({ bounds: SLEEP_S, buckets: [count, ...SLEEP_S.map(zero)], sum: 0, count })),
      TESTED,
    ),
    {},
  ),
  changed(
    gauge(
      "now",
      "vllm:sleep_mode_operations_in_flight",
      "Sleep-mode operations currently awaited.",
      sleepOperations(zero),
      TESTED,
    ),
    {},
  ),
];

/**
 * Pages as other versions write them: their families, labels and bounds, with made-up numbers. The numbers fit together, so no
 * law is violated.
 */

type Labels = Readonly<Record<string, string>>;

const series = (name: string, labels: Labels): string => {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
};

/** One value for all labels, or one for each. */
function family(type: string, name: string, ...all: readonly (readonly [labels: Labels, value: number])[]): string {
  const lines = all.map(([labels, value]) => `${series(name, labels)} ${value}`);
  return [`# HELP ${name} Generated.`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n");
}

const counter = (name: string, labels: Labels, value: number): string => family("counter", name, [labels, value]);
const gauge = (name: string, labels: Labels, value: number): string => family("gauge", name, [labels, value]);

function histogram(name: string, labels: Labels, bounds: readonly number[], values: readonly number[]): string {
  const buckets = [...bounds, Number.POSITIVE_INFINITY].map((le) => {
    const upTo = values.filter((value) => value <= le).length;
    return `${series(`${name}_bucket`, { le: le === Number.POSITIVE_INFINITY ? "+Inf" : String(le), ...labels })} ${upTo}`;
  });
  const sum = values.reduce((all, value) => all + value, 0);
  const ends = [`${series(`${name}_count`, labels)} ${values.length}`, `${series(`${name}_sum`, labels)} ${sum}`];
  return [`# HELP ${name} Generated.`, `# TYPE ${name} histogram`, ...buckets, ...ends, ""].join("\n");
}

const upTo = (last: number, bounds: readonly number[]): number[] => bounds.filter((bound) => bound <= last);
const FIRST = [
  ...[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560],
];
const GAPS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const WHOLE = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const LENGTHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
const STEPS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/** Three requests of 12, 20 and 40 prompt tokens with answers of 5, 7 and 9 tokens. */
const PROMPTS = [12, 20, 40];
const ANSWERS = [5, 7, 9];
const FIRSTS = [0.03, 0.05, 0.09];
const BETWEEN = [...Array(11).fill(0.02), ...Array(7).fill(0.06)] as number[];
const TOTALS = [0.4, 0.6, 1.2];

function vllmV0(prefix: string, labels: Labels, perToken: readonly number[]): string {
  const at = (name: string) => `${prefix}${name}`;
  return [
    gauge(at("num_requests_running"), labels, 0),
    gauge(at("num_requests_swapped"), labels, 0),
    gauge(at("num_requests_waiting"), labels, 0),
    gauge(at("gpu_cache_usage_perc"), labels, 0),
    gauge(at("cpu_cache_usage_perc"), labels, 0),
    gauge(at("cpu_prefix_cache_hit_rate"), labels, -1),
    gauge(at("gpu_prefix_cache_hit_rate"), labels, -1),
    gauge(at("avg_generation_throughput_toks_per_s"), labels, 11.25),
    counter(at("num_preemptions_total"), labels, 0),
    counter(at("prompt_tokens_total"), labels, 72),
    counter(at("generation_tokens_total"), labels, 21),
    // V0 has series only for finish reasons that occurred.
    counter(at("request_success_total"), { finished_reason: "length", ...labels }, 3),
    histogram(at("iteration_tokens_total"), labels, [1, 2, 4, 8, 16, 24, 32, 40], [12, 20, 1, 1, 2, 3]),
    histogram(at("time_to_first_token_seconds"), labels, upTo(10, FIRST), FIRSTS),
    histogram(at("time_per_output_token_seconds"), labels, perToken, BETWEEN),
    histogram(at("e2e_request_latency_seconds"), labels, upTo(60, WHOLE), TOTALS),
    histogram(at("request_prompt_tokens"), labels, LENGTHS, PROMPTS),
    histogram(at("request_generation_tokens"), labels, LENGTHS, ANSWERS),
    histogram(at("request_params_n"), labels, [1, 2, 5, 10, 20], [1, 1, 1]),
  ].join("");
}

/** Families that all V1 engines share, with the finish reasons that the version had. */
function vllmV1(reasons: readonly string[], more: string): string {
  const labels = { engine: "0", model_name: "m" };
  const ends = reasons.map((finished_reason, i) => [{ ...labels, finished_reason }, i === 0 ? 3 : 0] as const);
  const at = (name: string) => `vllm:${name}`;
  return [
    gauge(at("num_requests_running"), labels, 0),
    gauge(at("num_requests_waiting"), labels, 0),
    gauge(at("kv_cache_usage_perc"), labels, 0),
    counter(at("prefix_cache_queries_total"), labels, 72),
    counter(at("prefix_cache_hits_total"), labels, 16),
    counter(at("num_preemptions_total"), labels, 0),
    counter(at("prompt_tokens_total"), labels, 72),
    counter(at("generation_tokens_total"), labels, 21),
    family("counter", at("request_success_total"), ...ends),
    histogram(at("iteration_tokens_total"), labels, STEPS, [12, 20, 24, 9, 6, 6]),
    histogram(at("time_to_first_token_seconds"), labels, FIRST, FIRSTS),
    histogram(at("inter_token_latency_seconds"), labels, GAPS, BETWEEN),
    histogram(at("e2e_request_latency_seconds"), labels, WHOLE, TOTALS),
    histogram(at("request_prompt_tokens"), labels, LENGTHS, PROMPTS),
    histogram(at("request_generation_tokens"), labels, LENGTHS, ANSWERS),
    histogram(at("request_params_n"), labels, [1, 2, 5, 10, 20], [1, 1, 1]),
    gauge(at("cache_config_info"), { engine: "0", block_size: "16", num_gpu_blocks: "2048" }, 1),
    more,
  ].join("");
}

const V1_TO_0_11 = vllmV1(
  ["stop", "length", "abort"],
  gauge("vllm:gpu_cache_usage_perc", { engine: "0", model_name: "m" }, 0) +
    histogram("vllm:time_per_output_token_seconds", { engine: "0", model_name: "m" }, GAPS, BETWEEN),
);

/** A page of which the README shows only some buckets. */
const TRITON_VLLM = (() => {
  const labels = { model: "vllm_model", version: "1" };
  const torn = (text: string) => text.replace(/((?:.*_bucket.*\n){2})(?:.*_bucket.*\n)+(.*\+Inf.*\n)/, "$1...\n$2");
  return [
    counter("vllm:prompt_tokens_total", labels, 72),
    counter("vllm:generation_tokens_total", labels, 21),
    torn(histogram("vllm:time_to_first_token_seconds", labels, upTo(10, FIRST), FIRSTS)),
    torn(histogram("vllm:time_per_output_token_seconds", labels, upTo(2.5, GAPS), BETWEEN)),
    torn(histogram("vllm:request_prompt_tokens", labels, LENGTHS, PROMPTS)),
    torn(histogram("vllm:request_generation_tokens", labels, LENGTHS, ANSWERS)),
  ].join("");
})();

const RAY = {
  ...{ Component: "core_worker", NodeAddress: "10.0.0.7", SessionName: "session_2025-02-03_10-11-12_131415_1" },
  ...{ Version: "2.40.0", WorkerId: "0badc0de5ca1ab1e0ddba11f00dfeedfacecafe0123456789abcdef" },
};

/** Per model: successes, inferences, executions, and µs of the request and of its four parts. */
function triton(models: Readonly<Record<string, readonly number[]>>, more: Labels = {}): string {
  const names = [
    ...["inference_request_success", "inference_count", "inference_exec_count", "inference_request_duration_us"],
    ...["queue", "compute_input", "compute_infer", "compute_output"].map((part) => `inference_${part}_duration_us`),
  ];
  const labelled = Object.entries(models).map(([model, values]) => [{ ...more, model, version: "1" }, values] as const);
  const failures = labelled.map(([labels]) => [labels, 0] as const);
  return [
    ...names.map((name, i) =>
      family("counter", `nv_${name}`, ...labelled.map(([labels, values]) => [labels, values[i]!] as const)),
    ),
    family("counter", "nv_inference_request_failure", ...failures),
  ].join("");
}

const gpu = { gpu_uuid: "GPU-11111111-2222-3333-4444-555555555555" };
const TRITON_GPU = [
  gauge("nv_gpu_utilization", gpu, 0.25),
  gauge("nv_gpu_memory_total_bytes", gpu, 16_000_000_000),
  gauge("nv_gpu_memory_used_bytes", gpu, 1_500_000_000),
  counter("nv_energy_consumption", gpu, 4100.25),
].join("");

function trtllm(word: "metrics" | "statistics"): string {
  const labels = { model: "tensorrt_llm", version: "1" };
  const group = (name: string, label: string, values: Readonly<Record<string, number>>) =>
    family(
      "gauge",
      `nv_trt_llm_${name}_${word}`,
      ...Object.entries(values).map(([value, number]) => [{ ...labels, [label]: value }, number] as const),
    );
  return [
    group("request", "request_type", { context: 1, scheduled: 3, max: 256, active: 3 }),
    group("runtime_memory", "memory_type", { pinned: 0, gpu: 1_234_567, cpu: 0 }),
    group("kv_cache_block", "kv_cache_block_type", { tokens_per: 64, used: 7, free: 93, max: 100 }),
    group("inflight_batcher", "inflight_batcher_specific_metric", {
      ...{ micro_batch_id: 0, generation_requests: 2, total_context_tokens: 33 },
    }),
    group("general", "general_type", { iteration_counter: 12, timestamp: 1_700_000_000_000_000 }),
    triton({ tensorrt_llm: [4, 4, 4, 9000, 100, 200, 8000, 300] }),
  ].join("");
}

const DYNAMO = (() => {
  const labels = { model: "m" };
  return [
    gauge("dynamo_frontend_disconnected_clients", {}, 2),
    gauge("dynamo_frontend_inflight_requests", labels, 0),
    histogram("dynamo_frontend_input_sequence_tokens", labels, [0, 100, 210, 430], [120, 150, 190]),
    histogram("dynamo_frontend_inter_token_latency_seconds", labels, [0, 0.0019, 0.024, 0.084], BETWEEN),
    counter("dynamo_frontend_request_success_count", labels, 3),
  ].join("");
})();

/** As in the README: headers, a gap, samples. The middle value marks a feature that the GPU does not support. */
const DCGM = (() => {
  const names = ["SM_CLOCK", "MEMORY_TEMP", "GPU_UTIL"].map((name) => `DCGM_FI_DEV_${name}`);
  const heads = names.map((name) => `# HELP ${name} Generated.\n# TYPE ${name} gauge\n`);
  const values = ["210", "9223372036854775794", "37"];
  const samples = names.map(
    (name, i) => `${name}{gpu="0", UUID="GPU-11111111-2222-3333-4444-555555555555"} ${values[i]}\n`,
  );
  return `${heads.join("")}...\n${samples.join("")}...\n`;
})();

/** The five families of trtllm-serve 1.0 to 1.2. Two of three requests did not wait, so only one has a queue time. */
function trtllmServe(prefix: string): string {
  const labels = { engine_type: "trtllm", model_name: "m" };
  return [
    family("counter", `${prefix}request_success_total`, [{ ...labels, finished_reason: "stop" }, 3]),
    histogram(`${prefix}e2e_request_latency_seconds`, labels, WHOLE, TOTALS),
    histogram(`${prefix}time_to_first_token_seconds`, labels, FIRST, FIRSTS),
    histogram(`${prefix}time_per_output_token_seconds`, labels, GAPS, [0.02, 0.03, 0.06]),
    histogram(`${prefix}request_queue_time_seconds`, labels, WHOLE, [0.01]),
  ].join("");
}

/** The router of vLLM's production stack before its second engine got a request. */
const ROUTER = (() => {
  const first = { server: "http://10.1.0.1:8000" };
  const both = [first, { server: "http://10.1.0.2:8000" }] as const;
  const perServer = (name: string, ...values: readonly number[]) =>
    family("gauge", `vllm:${name}`, ...values.map((value, i) => [both[i]!, value] as const));
  return [
    perServer("num_requests_running", 3, 2),
    perServer("gpu_prefix_cache_hit_rate", 0.25, 0.5),
    perServer("gpu_prefix_cache_hits_total", 500, 250),
    perServer("current_qps", 1.25),
    perServer("avg_latency", 0.75),
    counter("vllm:num_incoming_requests_total", { model: "m" }, 40),
    counter("vllm:request_errors_total", { ...first, model: "m", error_type: "timeout" }, 1),
    histogram("vllm:request_latency_seconds", { ...first, model: "m", status: "success" }, [0.5, 1, 60], TOTALS),
    gauge("router_cpu_usage_percent", {}, 12.5),
  ].join("");
})();

const V1_TO_0_29 = vllmV1(["stop", "length", "abort", "error"], "");

export interface VersionPage {
  readonly name: string;
  readonly text: string;
  /** Numbers from the report. */
  readonly dialects: readonly string[];
  readonly versions: readonly string[];
  readonly isExcerpt: boolean;
  /** Laws with a note, and a word of its source. */
  readonly notes: readonly (readonly [law: string, thread: string])[];
}

const NOT_AVAILABLE = [["G15", "vllm#7606"]] as const;
const OLD_TRITON = triton({
  alpha: [6, 6, 5, 90_000, 700, 800, 80_000, 500],
  beta: [0, 0, 0, 0, 0, 0, 0, 0],
});

const plain = { isExcerpt: false, notes: [] } as const;

export const versionPages: readonly VersionPage[] = [
  {
    ...{ name: "vLLM V0", dialects: ["vllm"], versions: ["V0"], isExcerpt: false, notes: NOT_AVAILABLE },
    text: vllmV0("vllm:", { model_name: "m" }, GAPS),
  },
  {
    ...{ name: "vLLM V0, cut off", dialects: ["vllm"], versions: ["V0"], isExcerpt: true, notes: NOT_AVAILABLE },
    text: vllmV0("vllm:", { model_name: "m" }, GAPS).replace(/(request_params_n_bucket\{le="2".*\n)[\s\S]*/, "$1"),
  },
  {
    ...{ name: "vLLM V0 in Ray Serve", dialects: ["vllm"], versions: ["V0"], isExcerpt: false, notes: NOT_AVAILABLE },
    text: vllmV0("ray_vllm:", { ...RAY, model_name: "m" }, upTo(2.5, GAPS)),
  },
  {
    ...{ name: "Triton's vLLM backend, a part", dialects: ["vllm"], versions: ["V0"], isExcerpt: true, notes: [] },
    text: TRITON_VLLM,
  },
  { ...plain, name: "vLLM V1 up to 0.11", dialects: ["vllm"], versions: ["V1 to 0.11"], text: V1_TO_0_11 },
  {
    ...{ ...plain, name: "vLLM 0.14", dialects: ["vllm"], versions: ["0.12 to 0.29"], text: V1_TO_0_29 },
  },
  ...[
    ["vLLM in NIM, without its prefix", ""],
    ["vLLM behind a relay, its prefix behind another", "relay_vllm:"],
    ["vLLM behind a collector without colons", "edge_vllm_"],
  ].map(([name, prefix]) => ({
    ...{ ...plain, name: name!, dialects: ["vllm"], versions: ["0.12 to 0.29"] },
    text: V1_TO_0_29.replaceAll("vllm:", prefix!),
  })),
  {
    ...{ name: "an early NIM", dialects: ["vllm"], versions: ["V0"], isExcerpt: false, notes: NOT_AVAILABLE },
    text: vllmV0("", { model_name: "m" }, GAPS),
  },
  ...["", "trtllm:", "trtllm_"].map((prefix) => ({
    ...{ ...plain, name: `trtllm-serve 1.1, prefix "${prefix}"`, dialects: ["trtllm-serve"] },
    ...{ versions: ["1.0 to 1.2"], text: trtllmServe(prefix) },
  })),
  {
    ...{ name: "the router of vLLM's production stack", dialects: ["vllm-router"], versions: [], isExcerpt: false },
    ...{ notes: [["G18", "production-stack"]], text: ROUTER },
  },
  {
    ...{ ...plain, name: "Triton 21.05", dialects: ["triton"], versions: ["before 24.07"] },
    text: triton({ resnet: [4, 4, 4, 7000, 100, 1800, 5000, 60] }, gpu) + TRITON_GPU,
  },
  {
    ...{ ...plain, name: "Triton before 24.07", dialects: ["triton"], versions: ["before 24.07"] },
    text: OLD_TRITON + TRITON_GPU,
  },
  {
    ...{ ...plain, name: "TensorRT-LLM, groups of 2023", dialects: ["trtllm", "triton"] },
    ...{ versions: ["without waiting", "before 24.07"], text: trtllm("metrics") },
  },
  {
    ...{ ...plain, name: "TensorRT-LLM, statistics", dialects: ["trtllm", "triton"] },
    ...{ versions: ["_statistics", "before 24.07"], text: trtllm("statistics") },
  },
  {
    ...{
      ...plain,
      name: "an early Dynamo frontend",
      dialects: ["dynamo-frontend"],
      versions: ["before requests_total"],
    },
    text: DYNAMO,
  },
  {
    ...{ name: "DCGM, a part", dialects: ["dcgm"], versions: [], isExcerpt: true, text: DCGM },
    notes: [["G04", "gpu-monitoring-tools#92"]],
  },
];

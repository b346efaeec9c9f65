/**
 * Metrics of a Triton server about its models, GPUs and host: the core's families in its order (counters, gauges,
 * histograms, summaries), `metrics.cc`, `metric_model_reporter.cc` (2026). Families of the response cache are missing,
 * because no model here has one.
 */
import type { Snapshot } from "../../engine/interface/types.ts";
import type { GpuIdentity, ModelIdentity } from "../ensemble/identity.ts";
import {
  FAILURE_REASONS,
  FIRST_RESPONSE_MS,
  MeterField,
  ModelWord,
  modelWidth,
  SPANS,
} from "../ensemble/model-numbers.ts";
import type { Identity } from "../rows/identity.ts";
import {
  counter,
  gauge,
  type Proof,
  type Row,
  type RowMaker,
  type Series,
  type SeriesReader,
  type SummarySnapshot,
  summary,
} from "../rows/table.ts";
import type { Labels, Sample } from "../rows/text.ts";
import { HELP, PINNED_BYTES } from "./help.ts";
import { type EnginePoll, type Host, type PollResult, poll } from "./poll.ts";

const BY_REQUESTS: Proof = { moves: "test/conformance/triton-metrics.test.ts" };
const BY_POLLS: Proof = { moves: "test/metrics/triton/poll.test.ts" };
export const labelsOf = ({ name, version }: ModelIdentity): Labels => ({ model: name, version });

/** Returns a number of the model with this index, summed over all engines. */
export function sumOf({ engines }: Snapshot, { triton }: Identity, model: number, word: number): number {
  const at = MeterField.models + model * modelWidth(triton.quantiles.length) + word;
  return engines.reduce((sum, { meters }) => sum + (meters[at] ?? 0), 0);
}

/** Reads one series per model. */
const each =
  <Value>(read: (number: (word: number) => number, model: number, snapshot: Snapshot, identity: Identity) => Value) =>
  (snapshot: Snapshot, identity: Identity): readonly Series<Value>[] =>
    identity.triton.models.map((model, index) => {
      const number = (word: number) => sumOf(snapshot, identity, index, word);
      return [labelsOf(model), read(number, index, snapshot, identity)];
    });

/** Without `counter_latencies`, the counters of the real server stand still. */
const counted = (word: number) => each((number, _model, _snapshot, { triton }) => (triton.counters ? number(word) : 0));

type Name = keyof typeof HELP;
/** Makes a row for a metric of Triton, with Triton's help text. Its numbers are read at each scrape. */
const row = <Value>(make: RowMaker<Value>, name: Name, read: SeriesReader<Value>, proof: Proof = BY_REQUESTS): Row =>
  make("now", name, HELP[name], read, proof);
const ofModels = (name: Name, word: number) => row(counter, name, counted(word));

const counters: readonly Row[] = [
  ofModels("nv_inference_request_success", ModelWord.success),
  row(counter, "nv_inference_request_failure", (snapshot, identity) =>
    FAILURE_REASONS.flatMap((reason, index) =>
      counted(ModelWord.failures + index)(snapshot, identity).map(
        ([labels, value]) => [{ ...labels, reason }, value] as const,
      ),
    ),
  ),
  ofModels("nv_inference_count", ModelWord.count),
  ofModels("nv_inference_exec_count", ModelWord.executions),
];

const durations: readonly Row[] = SPANS.map((span, index) =>
  ofModels(`nv_inference_${span}_duration_us`, ModelWord.durations + index),
);

const ofEachModel: readonly Row[] = [
  row(
    gauge,
    "nv_inference_pending_request_count",
    each(() => 0),
    {
      still:
        "an ensemble has none, the TensorRT-LLM backend takes requests in at once and queues them itself, and what waits for the tokenizer shows in the queue time of preprocessing",
    },
  ),
  row(
    gauge,
    "nv_model_load_duration_secs",
    each((_number, _model, _snapshot, { triton }) => triton.loadS),
    { still: "a model is loaded once" },
  ),
];

const polled = (name: Name, read: (result: PollResult) => number, proof: Proof) =>
  row(gauge, name, (snapshot, { triton }) => [[{}, read(poll(snapshot, triton))]], proof);

const pinned: readonly Row[] = [
  polled("nv_pinned_memory_pool_total_bytes", (result) => (result.polled ? PINNED_BYTES : 0), BY_POLLS),
  polled("nv_pinned_memory_pool_used_bytes", () => 0, {
    still: "TensorRT-LLM's backend runs on KIND_CPU instances, whose tensors are not pinned",
  }),
];

/** Returns an invented UUID that contains the engine and the GPU. */
export const uuidOf = (engine: number, gpu: number) =>
  `GPU-${engine.toString(16).padStart(8, "0")}-0000-4000-8000-${gpu.toString(16).padStart(12, "0")}`;

type OfGpu = (gpu: GpuIdentity, result: EnginePoll) => number;
/** All values are 0 before the first poll. */
const ofGpus =
  (read: OfGpu): SeriesReader<number> =>
  (snapshot, { triton, engineFirst }) => {
    const { polled: begun, engines } = poll(snapshot, triton);
    return engines.flatMap((engine, rank) =>
      triton.gpus.map((gpu, index) => [{ gpu_uuid: uuidOf(engineFirst + rank, index) }, begun ? read(gpu, engine) : 0]),
    );
  };

/** Power: `atWork` while the GPU computes, else `idle`. */
const power: OfGpu = ({ watts }, { utilization }) => watts.idle + utilization * (watts.atWork - watts.idle);
const energy: OfGpu = ({ watts }, { aliveUs, busyUs }) =>
  (watts.idle * aliveUs + (watts.atWork - watts.idle) * Math.min(busyUs, aliveUs)) / 1e6;

const gpuEnergy: readonly Row[] = [row(counter, "nv_energy_consumption", ofGpus(energy), BY_POLLS)];

type GpuName = "utilization" | "memory_total_bytes" | "memory_used_bytes" | "power_usage" | "power_limit";
const ofGpu = (name: GpuName, read: OfGpu) => row(gauge, `nv_gpu_${name}`, ofGpus(read), BY_POLLS);

const gpus: readonly Row[] = [
  ofGpu("utilization", (_, { utilization }) => utilization),
  ofGpu("memory_total_bytes", ({ totalBytes }) => totalBytes),
  ofGpu("memory_used_bytes", ({ usedBytes }) => usedBytes),
  ofGpu("power_usage", power),
  ofGpu("power_limit", ({ watts }) => watts.limit),
];

const ofHost = (name: Name, read: (host: Host) => number) => polled(name, ({ host }) => read(host), BY_POLLS);

const host: readonly Row[] = [
  ofHost("nv_cpu_utilization", ({ cpuUtilization }) => cpuUtilization),
  ofHost("nv_cpu_memory_total_bytes", ({ memoryTotalBytes }) => memoryTotalBytes),
  ofHost("nv_cpu_memory_used_bytes", ({ memoryUsedBytes }) => memoryUsedBytes),
];

/** Returns a histogram's samples in prometheus-cpp's order: count, sum, buckets. `buckets` are not cumulative and one more than bounds. */
export function histogramSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  buckets: readonly number[],
  sum: number,
): readonly Sample[] {
  let below = 0;
  const cumulative = buckets.map((bucket, index) => {
    below += bucket;
    return { metricName: `${name}_bucket`, labels: { ...labels, le: bounds[index] ?? Infinity }, value: below };
  });
  return [
    { metricName: `${name}_count`, labels, value: below },
    { metricName: `${name}_sum`, labels, value: sum },
    ...cumulative,
  ];
}

/** Makes a histogram row whose buckets start at `word`, with a series per model that `of` returns. */
export function modelHistogram(
  name: string,
  help: string,
  bounds: readonly number[],
  word: number,
  of: (identity: Identity) => readonly (readonly [Labels, number])[],
  proof: Proof,
): Row {
  return {
    name,
    help,
    type: "histogram",
    refresh: "now",
    samples: (snapshot, identity) =>
      of(identity).flatMap(([labels, model]) => {
        const buckets = Array.from({ length: bounds.length + 1 }, (_, i) => sumOf(snapshot, identity, model, word + i));
        const sum = sumOf(snapshot, identity, model, word + bounds.length + 1);
        return histogramSamples(name, labels, bounds, buckets, sum);
      }),
    proof,
  };
}

const firstResponse = modelHistogram(
  "nv_inference_first_response_histogram_ms",
  HELP.nv_inference_first_response_histogram_ms,
  FIRST_RESPONSE_MS,
  ModelWord.firstResponse,
  ({ triton }) => triton.models.map((model, index) => [labelsOf(model), index] as const),
  BY_REQUESTS,
);

/** Shows the largest estimate of several engines, because one server has only one. */
function summaryOf(span: number): SeriesReader<SummarySnapshot> {
  return each((number, model, { engines }, { triton }) => {
    const { quantiles } = triton;
    const first =
      MeterField.models + model * modelWidth(quantiles.length) + ModelWord.quantiles + span * quantiles.length;
    const estimate = (index: number) => Math.max(0, ...engines.map(({ meters }) => meters[first + index] ?? 0)) - 1;
    return {
      count: number(ModelWord.success),
      sum: number(ModelWord.durations + span),
      quantiles: quantiles.map((quantile, index) => {
        const value = estimate(index);
        return [quantile, value < 0 ? Number.NaN : value] as const;
      }),
    };
  });
}

const summaries: readonly Row[] = SPANS.map((span, index) =>
  row(summary, `nv_inference_${span}_summary_us`, summaryOf(index)),
);

/** Returns the families that are on. The real server does not print a family without series. */
export function tritonRows({ triton: server }: Identity): readonly Row[] {
  if (!server.metrics) return [];
  const shown = server.gpus.length > 0;
  return [
    ...counters,
    ...(server.counters ? durations : []),
    ...(shown ? gpuEnergy : []),
    ...ofEachModel,
    ...pinned,
    ...(shown ? gpus : []),
    ...(server.cpu ? host : []),
    ...(server.histograms ? [firstResponse] : []),
    ...(server.quantiles.length > 0 ? summaries : []),
  ];
}

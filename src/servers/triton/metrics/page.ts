/**
 * Prints the metrics page of a Triton server: counters, gauges, histograms and summaries, in the order of the real server.
 * Omits families without series. Source: `metric_model_reporter.cc` (2026), compared with recorded pages of 2.51.
 */

import type { LoopView } from "../../../engine/interface/types.ts";
import type { TritonMetricsConfig } from "../../../metrics/config/triton-metrics.ts";
import { FAILURE_REASONS, SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import { type Labels, printFamily, type Sample } from "../../../metrics/rows/text.ts";
import { HELP } from "../../../metrics/triton/help.ts";
import { prometheusCpp } from "../../../metrics/triton/style.ts";
import { histogramSamples, uuidOf } from "../../../metrics/triton/table.ts";
import { LOG_LINES_DROPPED } from "../../../metrics/vllm/understudy.ts";
import type { LlmCounts } from "../backends/counts.ts";
import type { CacheCounts } from "../inference/cache.ts";
import type { CountedModel } from "../inference/counted.ts";
import type { ModelReporter } from "../inference/reporter.ts";
import type { ModelVersion } from "../inference/served.ts";
import type { TritonServer } from "../inference/server.ts";
import { type GpuFacts, gpuRows } from "./gpus.ts";
import {
  executorFamilies,
  type LabelledModel,
  latenessRows,
  llmRows,
  type PageRow,
  type PrintedFamily,
} from "./llm.ts";
import type { MachineValues } from "./polled.ts";

export interface PageSettings {
  readonly metrics: TritonMetricsConfig;
  readonly namespacing: boolean;
  readonly pinnedBytes: number;
  readonly nowUs: number;
  /** Number of answers that each fault affected, by fault id. */
  readonly faults: ReadonlyMap<string, number>;
  /** Number of log lines that this process dropped. */
  readonly logLinesDropped: number;
  readonly llm: LlmCounts;
  /** GPUs to list, or null if GPU metrics are off. */
  readonly gpus: readonly number[] | null;
  readonly gpuFacts: GpuFacts;
  /** Lateness of the engine's steps. */
  readonly loop: LoopView;
  /** Printed families of TensorRT-LLM's executor, or "". */
  readonly executor: string;
}

interface ReportedModel extends LabelledModel {
  readonly reporter: ModelReporter;
}

export function metricsPage(server: TritonServer, polled: MachineValues, settings: PageSettings): string {
  const { metrics, llm } = settings;
  llm.settle();
  const models = server.counted.map((model) => [model, labelsOf(model, settings.namespacing)] as const);
  const served = models.flatMap(([{ served: model }, labels]) =>
    model === null ? [] : [{ ...partsOf(model), labels }],
  );
  const loaded: readonly ReportedModel[] = served.map((model) => ({ ...model, reporter: model.statistics.reporter }));
  const onGpus = served.flatMap(({ statistics, ...model }): ReportedModel[] =>
    [...statistics.onGpus].map(([gpu, reporter]) => ({ ...model, labels: onGpu(model.labels, gpu), reporter })),
  );
  const shown = [...loaded, ...onGpus];
  const { facts } = server;
  const gauge = (name: FamilyName, read: ReadNumber): PageRow => [name, "gauge", HELP[name], each(shown, read)];
  const gpus = gpuRows(settings.gpus ?? [], polled.gpus, settings.gpuFacts);
  const rows: readonly PageRow[] = [
    ...counters(models, shown, metrics.counters),
    gauge("nv_inference_pending_request_count", ({ pending }) => pending),
    ...(facts.loadDuration ? [gauge("nv_model_load_duration_secs", ({ loadS }) => loadS)] : []),
    ...machine(polled, gpus, settings),
    ...(polled.cache ? cacheGauges(polled.cache) : []),
    ...(metrics.histograms && facts.firstResponse ? [firstResponse(shown)] : []),
    ...(metrics.quantiles.length > 0 ? summaries(shown, settings) : []),
    ["understudy_faults_total", "counter", "Answers that a fault acted on", faultSamples(settings.faults)],
    [LOG_LINES_DROPPED.name, "counter", LOG_LINES_DROPPED.help, ifAny(settings.logLinesDropped)],
    ...llmRows(loaded, llm),
    ...latenessRows(settings.loop),
  ];
  const printed = rows
    .filter(([, , , values]) => values.length > 0)
    .map(([name, type, help, values]) => ({ type, text: printFamily({ name, type, help, values }, prometheusCpp) }));
  const all: readonly PrintedFamily[] = [...printed, ...executorFamilies(settings.executor, loaded, llm)];
  return TYPES.flatMap((type) => all.flatMap((family) => (family.type === type ? family.text : []))).join("");
}
const partsOf = ({ name, version, statistics }: ModelVersion) => ({ name, version, statistics });
const TYPES = ["counter", "gauge", "histogram", "summary"];

/** Returns a sample only if the value is above 0, so that our own families do not change the page of a real server. */
const ifAny = (value: number): Sample[] => (value > 0 ? [{ labels: {}, value }] : []);

const faultSamples = (faults: PageSettings["faults"]): Sample[] =>
  [...faults].sort(([a], [b]) => (a < b ? -1 : 1)).map(([fault, value]) => ({ labels: { fault }, value }));

function labelsOf({ name, version, folder }: CountedModel, namespacing: boolean): Labels {
  const tags = Object.entries(folder.config.metric_tags ?? {}).map(([tag, value]) => [`_${tag}`, value]);
  return {
    ...Object.fromEntries(tags),
    model: name,
    ...(namespacing ? { namespace: folder.repository } : {}),
    version: `${version}`,
  };
}

/** Adds the GPU's label after the model's tags. */
const onGpu = (labels: Labels, gpu: number): Labels => {
  const tags = Object.entries(labels).filter(([label]) => label.startsWith("_"));
  return { ...Object.fromEntries(tags), gpu_uuid: uuidOf(0, gpu), ...labels };
};

type FamilyName = keyof typeof HELP;
type ReadNumber = (reporter: ModelReporter) => number;
const each = (shown: readonly ReportedModel[], read: ReadNumber) =>
  shown.map(({ labels, reporter }) => ({ labels, value: read(reporter) }));

const single = (name: string, help: string, value: number): PageRow => [name, "gauge", help, [{ labels: {}, value }]];

const CACHE_COUNTERS: readonly (readonly [name: string, help: string, read: ReadNumber])[] = [
  ["num_hits", "Number of cache hits per model", ({ cacheHit }) => cacheHit.count],
  ["hit_duration", "Total cache hit duration per model, in microseconds", ({ cacheHit }) => cacheHit.us],
  ["num_misses", "Number of cache misses per model", ({ cacheMiss }) => cacheMiss.count],
  [
    "miss_duration",
    "Total cache miss (insert+lookup) duration per model, in microseconds",
    ({ cacheMiss: { us } }) => us,
  ],
];

/** Without `counter_latencies` the real server shows counters as 0 and omits durations. */
function counters(
  models: readonly (readonly [CountedModel, Labels])[],
  shown: readonly ReportedModel[],
  on: boolean,
): PageRow[] {
  const values = (read: ReadNumber) => each(shown, on ? read : () => 0);
  const number = (name: FamilyName, read: ReadNumber): PageRow => [name, "counter", HELP[name], values(read)];
  const failures = models.flatMap(([{ failures, failuresOn }, labels]) =>
    FAILURE_REASONS.flatMap((reason) => {
      const sample = (of: Labels, value: number) => ({ labels: { ...of, reason }, value: on ? value : 0 });
      const gpus = [...failuresOn].map(([gpu, failuresOnGpu]) => sample(onGpu(labels, gpu), failuresOnGpu[reason]));
      return [sample(labels, failures[reason]), ...gpus];
    }),
  );
  const cached = shown.filter(({ reporter }) => reporter.cached);
  return [
    number("nv_inference_request_success", ({ success }) => success.count),
    ["nv_inference_request_failure", "counter", HELP.nv_inference_request_failure, failures],
    number("nv_inference_count", ({ inferences }) => inferences),
    number("nv_inference_exec_count", ({ executions }) => executions),
    ...(on
      ? [
          ...SPANS.map((span, at) => number(`nv_inference_${span}_duration_us`, ({ spans }) => spans[at]!)),
          ...CACHE_COUNTERS.map(
            ([name, help, read]): PageRow => [`nv_cache_${name}_per_model`, "counter", help, each(cached, read)],
          ),
        ]
      : []),
  ];
}

function machine({ polled, host }: MachineValues, gpus: readonly PageRow[], settings: PageSettings): PageRow[] {
  const one = (name: FamilyName, value: number) => single(name, HELP[name], value);
  return [
    one("nv_pinned_memory_pool_total_bytes", polled ? settings.pinnedBytes : 0),
    one("nv_pinned_memory_pool_used_bytes", 0),
    ...gpus,
    ...(settings.metrics.cpu
      ? [
          one("nv_cpu_utilization", host.cpuUtilization),
          one("nv_cpu_memory_total_bytes", host.memoryTotalBytes),
          one("nv_cpu_memory_used_bytes", host.memoryUsedBytes),
        ]
      : []),
  ];
}

function cacheGauges(cache: CacheCounts): PageRow[] {
  const { hits, misses } = cache;
  return [
    single("nv_cache_util", "Cache utilization [0.0 - 1.0]", cache.usedBytes / cache.sizeBytes),
    single("nv_cache_num_entries", "Number of responses stored in response cache", cache.entries),
    single("nv_cache_num_hits", "Number of cache hits in response cache", hits),
    single("nv_cache_num_misses", "Number of cache misses in response cache", misses),
    single("nv_cache_num_lookups", "Number of cache lookups in response cache", hits + misses),
    single("nv_cache_num_evictions", "Number of cache evictions in response cache", cache.evictions),
    single("nv_cache_lookup_duration", "Total cache lookup duration (hit and miss), in microseconds", cache.lookupUs),
    single("nv_cache_insertion_duration", "Total cache insertion duration, in microseconds", cache.insertionUs),
  ];
}

function firstResponse(shown: readonly ReportedModel[]): PageRow {
  const name = "nv_inference_first_response_histogram_ms";
  const values = shown.flatMap(({ labels, reporter: { firstResponse: numbers, firstResponseMs: bounds } }) =>
    histogramSamples(name, labels, bounds, [...numbers].slice(0, -1), numbers.at(-1)!),
  );
  return [name, "histogram", HELP[name], values];
}

/** Returns the summaries. Models with a response cache have none for whole requests. */
function summaries(shown: readonly ReportedModel[], { metrics, nowUs }: PageSettings): PageRow[] {
  const row = (
    name: string,
    help: string,
    of: readonly ReportedModel[],
    span: number,
    read: (reporter: ModelReporter) => { readonly count: number; readonly us: number },
  ): PageRow => {
    const values = of.flatMap(({ labels, reporter }): Sample[] => {
      const { count, us } = read(reporter);
      const quantiles = reporter.quantiles[span]!;
      quantiles.rotate(nowUs);
      return [
        { metricName: `${name}_count`, labels, value: count },
        { metricName: `${name}_sum`, labels, value: us },
        ...metrics.quantiles.map(({ quantile }) => ({
          labels: { ...labels, quantile },
          value: quantiles.get(quantile),
        })),
      ];
    });
    return [name, "summary", help, values];
  };
  const ofCached = (cached: boolean) => shown.filter(({ reporter }) => reporter.cached === cached);
  return [
    ...SPANS.map((span, at) => {
      const name = `nv_inference_${span}_summary_us` as const;
      return row(name, HELP[name], at === 0 ? ofCached(false) : shown, at, ({ success, cacheHit, spans }) => ({
        count: success.count - (at < 2 ? 0 : cacheHit.count),
        us: spans[at]!,
      }));
    }),
    ...(["hit", "miss"] as const).map((what, at) => {
      const help = `Summary of cache ${what} counts/durations per model, in microseconds.`;
      const read = ({ cacheHit, cacheMiss }: ModelReporter) => (what === "hit" ? cacheHit : cacheMiss);
      return row(`nv_cache_${what}_summary_per_model`, help, ofCached(true), SPANS.length + at, read);
    }),
  ];
}

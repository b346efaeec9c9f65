/**
 * Adds the metric families of the LLM backends: those of vLLM's and TensorRT-LLM's requests, from their counts, and those of
 * TensorRT-LLM's executor, which `metrics/triton/trtllm.ts` prints.
 */
import type { HistogramView, LoopView } from "../../../engine/interface/types.ts";
import type { Labels, Sample } from "../../../metrics/rows/text.ts";
import { histogramSamples } from "../../../metrics/triton/table.ts";
import { LATENESS } from "../../../metrics/vllm/understudy.ts";
import type { LlmCounts, TrtllmCounts, VllmCounts } from "../backends/counts.ts";

export interface LabelledModel {
  readonly name: string;
  readonly version: number;
  readonly labels: Labels;
}

type Type = "counter" | "gauge" | "histogram" | "summary";
/** A metric family: its name, its type, its help text and its samples. */
export type PageRow = readonly [name: string, type: Type, help: string, values: readonly Sample[]];

const keyOf = ({ name, version }: LabelledModel) => `${name}/${version}`;

/** Returns the rows in the order in which the backends register them. */
export function llmRows(models: readonly LabelledModel[], { vllm, trtllm }: LlmCounts): readonly PageRow[] {
  const ofVllm = counted(models, vllm);
  const ofTrtllm = counted(models, trtllm);
  return [
    counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", ofVllm, (one) => one.promptTokens),
    counter(
      "vllm:generation_tokens_total",
      "Number of generation tokens processed.",
      ofVllm,
      (one) => one.generationTokens,
    ),
    ...VLLM_HISTOGRAMS.map(([name, help, read]) => histogram(`vllm:${name}`, help, ofVllm, read)),
    ...(["output", "input"] as const).map((what) =>
      histogram(
        `nv_llm_${what}_token_len`,
        "TRT LLM response metrics",
        ofTrtllm.map(([labels, one]) => [{ ...labels, response_metric_type: `total_${what}_tokens` }, one]),
        (one) => one[what],
      ),
    ),
  ];
}

/** Returns how late the engine's steps are, as on vLLM's page. Empty before the first step. */
export function latenessRows(loop: LoopView): readonly PageRow[] {
  return LATENESS.flatMap(([name, help, key]): PageRow[] => {
    const { bounds, buckets, sum, count } = loop[key];
    return count === 0 ? [] : [[name, "histogram", help, histogramSamples(name, {}, bounds, Array.from(buckets), sum)]];
  });
}

const VLLM_HISTOGRAMS: readonly (readonly [string, string, (counts: VllmCounts) => HistogramView])[] = [
  ["time_to_first_token_seconds", "Histogram of time to first token in seconds.", (one) => one.ttftS],
  ["time_per_output_token_seconds", "Histogram of time per output token in seconds.", (one) => one.tpotS],
  ["e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", (one) => one.e2eS],
  ["request_prompt_tokens", "Number of prefill tokens processed.", (one) => one.prompt],
  ["request_generation_tokens", "Number of generation tokens processed.", (one) => one.generation],
  ["request_params_n", "Histogram of the n request parameter.", (one) => one.paramsN],
];

type CountsByLabels<T> = readonly (readonly [Labels, T])[];

const counted = <T extends VllmCounts | TrtllmCounts>(
  models: readonly LabelledModel[],
  counts: ReadonlyMap<string, T>,
): CountsByLabels<T> =>
  models.flatMap((model) => {
    const modelCounts = counts.get(keyOf(model));
    return modelCounts === undefined
      ? []
      : [[{ model: model.name, version: `${model.version}` }, modelCounts] as const];
  });

const counter = <T>(name: string, help: string, of: CountsByLabels<T>, read: (counts: T) => number): PageRow => [
  name,
  "counter",
  help,
  of.map(([labels, one]) => ({ labels, value: read(one) })),
];

const histogram = <T>(
  name: string,
  help: string,
  of: CountsByLabels<T>,
  read: (counts: T) => HistogramView,
): PageRow => [
  name,
  "histogram",
  help,
  of.flatMap(([labels, one]) => {
    const { bounds, buckets, sum } = read(one);
    return histogramSamples(name, labels, bounds, Array.from(buckets), sum);
  }),
];

export interface PrintedFamily {
  readonly type: string;
  readonly text: string;
}

/** Repeats each series of a printed page for every model of TensorRT-LLM's backend. Empty without such a model. */
export function executorFamilies(
  page: string,
  models: readonly LabelledModel[],
  { trtllm }: LlmCounts,
): PrintedFamily[] {
  const trtModels = models.filter((model) => trtllm.has(keyOf(model)));
  if (trtModels.length === 0) return [];
  const families = [...page.matchAll(/^(# HELP (\S+) .*\n# TYPE \S+ (\S+)\n)((?:[^#].*\n)*)/gm)];
  return families.flatMap(([, head, name = "", type = "", samples = ""]) => {
    // These families already count the requests of each model.
    if (name.startsWith("nv_llm_")) return [];
    const lines = samples.split("\n").filter(Boolean);
    const text = trtModels.flatMap(({ name: model, version }) =>
      lines.map((line) =>
        line
          .replace(/([{,])model="[^"]*"/, `$1model="${model}"`)
          .replace(/([{,])version="[^"]*"/, `$1version="${version}"`),
      ),
    );
    return [{ type, text: `${head}${text.join("\n")}\n` }];
  });
}

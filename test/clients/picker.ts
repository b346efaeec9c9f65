/**
 * Reads a page like the scraper of llm-d-router's endpoint picker (ebab68792, `docs/plugin-metric-protocol.md` and its
 * metrics extractor). Go's text parser with legacy names fails for the whole page. Only gauges and counters count, only the
 * first of several series, and numbers in labels are read like by Atoi.
 */

export interface Reading {
  readonly queued: number;
  readonly running: number;
  /** Share of the KV cache in use, from 0 to 1. */
  readonly kvUsage: number;
  readonly blockSize: number;
  readonly blocks: number;
}

/** Place of a quantity in a dialect: the family, and either a label with a value, or a label whose value is the number. */
type Place = readonly [family: string, ...rest: readonly [label: string, value: string | null] | readonly []];
const PLACES: Readonly<Record<"vllm" | "triton-tensorrt-llm", Readonly<Record<keyof Reading, Place>>>> = {
  vllm: {
    queued: ["vllm:num_requests_waiting"],
    running: ["vllm:num_requests_running"],
    kvUsage: ["vllm:kv_cache_usage_perc"],
    blockSize: ["vllm:cache_config_info", "block_size", null],
    blocks: ["vllm:cache_config_info", "num_gpu_blocks", null],
  },
  "triton-tensorrt-llm": {
    queued: ["nv_trt_llm_request_metrics", "request_type", "waiting"],
    running: ["nv_trt_llm_request_metrics", "request_type", "scheduled"],
    kvUsage: ["nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction"],
    blockSize: ["nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "tokens_per"],
    blocks: ["nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "max"],
  },
};

interface Series {
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}
interface Family {
  readonly type: string;
  readonly series: Series[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;

/** Parses a page. Throws for text that Go's `expfmt` refuses. Samples of histograms and summaries belong to their family. */
export function parse(text: string): Map<string, Family> {
  if (!text.endsWith("\n")) throw new Error("no newline at the end");
  const families = new Map<string, Family>();
  const sampled = new Set<string>();
  for (const line of text.split("\n").slice(0, -1)) {
    if (line.startsWith("# TYPE ")) {
      const [, , name = "", type = ""] = line.split(" ");
      if (families.has(name)) throw new Error(`second TYPE line for ${name}`);
      if (sampled.has(name)) throw new Error(`TYPE of ${name} behind its samples`);
      families.set(name, { type, series: [] });
    } else if (line !== "" && !line.startsWith("#")) {
      const name = NAME.exec(line)?.[0];
      if (name === undefined) throw new Error(`no name: ${line}`);
      const base = families.has(name) ? name : name.replace(/_(bucket|sum|count)$/, "");
      sampled.add(base);
      const [labels, rest] = labelsOf(line.slice(name.length));
      if (!/^ \S+$/.test(rest)) throw new Error(`a value and nothing else: ${line}`);
      const value = goFloat(rest.slice(1));
      families.get(base)?.series.push({ labels, value });
    }
  }
  return families;
}

function labelsOf(text: string): [Map<string, string>, string] {
  const labels = new Map<string, string>();
  if (!text.startsWith("{")) return [labels, text];
  let rest = text.slice(1);
  while (!rest.startsWith("}")) {
    const match = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)",?/.exec(rest);
    if (!match) throw new Error(`a bad label: ${rest}`);
    if (labels.has(match[1]!)) throw new Error(`label ${match[1]} twice`);
    labels.set(match[1]!, match[2]!);
    rest = rest.slice(match[0].length);
  }
  return [labels, rest.slice(1)];
}

function goFloat(text: string): number {
  if (/^[+-]?Inf$/.test(text)) return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  if (text === "NaN") return Number.NaN;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) throw new Error(`no number: ${text}`);
  return Number(text);
}

export function read(text: string, engine: keyof typeof PLACES): Reading {
  const families = parse(text);
  const of = (quantity: keyof Reading): number => {
    const [name, label, wanted] = PLACES[engine][quantity];
    const family = families.get(name);
    if (family?.type !== "gauge" && family?.type !== "counter") throw new Error(`${name} is no gauge`);
    const found = family.series.find(({ labels }) => !label || wanted === null || labels.get(label) === wanted);
    if (found === undefined) throw new Error(`${name} has no series for ${quantity}`);
    if (label === undefined || wanted !== null) return found.value;
    const digits = found.labels.get(label) ?? "";
    if (!/^[+-]?\d+$/.test(digits)) throw new Error(`${name}: ${label}="${digits}" is no whole number`);
    return Number(digits);
  };
  return {
    queued: Math.trunc(of("queued")),
    running: Math.trunc(of("running")),
    kvUsage: of("kvUsage"),
    blockSize: of("blockSize"),
    blocks: of("blocks"),
  };
}

/** Returns the running adapters and their limit, from the series with the largest value. */
export function readLora(text: string): { readonly running: string[]; readonly max: number } {
  const series = parse(text).get("vllm:lora_requests_info")?.series ?? [];
  const last = series.toSorted((a, b) => b.value - a.value)[0];
  const names = (last?.labels.get("running_lora_adapters") ?? "").split(",").map((name) => name.trim());
  return { running: names.filter(Boolean), max: Number(last?.labels.get("max_lora") ?? Number.NaN) };
}

/** Returns the sum of the default scorers for each server: queue, and free KV cache. */
export function scores(pods: readonly Reading[]): number[] {
  const queues = pods.map(({ queued }) => queued);
  const [least, most] = [Math.min(...queues), Math.max(...queues)];
  return pods.map(({ queued, kvUsage }) => (most === least ? 1 : (most - queued) / (most - least)) + 1 - kvUsage);
}

/** Returns the saturation of a pool. From 1 on, the router holds requests back (queue depth 5, KV 0.8). */
export function saturation(pods: readonly Reading[]): number {
  const each = pods.map(({ queued, kvUsage }) => Math.max(queued / 5, kvUsage / 0.8));
  return each.reduce((sum, value) => sum + value, 0) / pods.length;
}

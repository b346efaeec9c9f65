/**
 * Compares our exposition with vLLM's, byte by byte. The values of a recorded page of vLLM 0.33 are put into a snapshot
 * and printed, and each family must equal the recording. `server`: the real API server; `classes`: only its metric
 * classes.
 */
import { describe, expect, test } from "bun:test";
import { LEFT_OUT } from "../../../scripts/docs/metrics.ts";
import type { ServeConfig } from "../../../src/app/config/serve-config.ts";
import { histogramBounds } from "../../../src/engine/config/buckets.ts";
import type {
  EngineSnapshot,
  HistogramName,
  HistogramSnapshot,
  Snapshot,
} from "../../../src/engine/interface/types.ts";
import { pages } from "../../../src/metrics/page.ts";
import { HTTP_WIDTH, type HttpRoute, HttpWord, STATUS_CLASSES } from "../../../src/metrics/rows/http-counts.ts";
import { cacheConfigLabels } from "../../../src/metrics/vllm/cache-config.ts";
import { type ParsedFamily, parseExposition } from "../parse.ts";
import { emptyEngine, emptySnapshot, identity } from "../snapshots.ts";
import { HISTOGRAM_FAMILIES } from "./histogram-families.ts";

/** Families that docs/reference/metrics.md leaves out with a reason. A family in both lists fails. */
const leftOut = new Set(Object.keys(LEFT_OUT).flatMap((names) => names.split(" ")));
const isLeftOut = (name: string) =>
  [...leftOut].some((left) =>
    left.endsWith("*") ? name.startsWith(left.slice(0, -1)) : name.replace(/_created$/, "_total") === left,
  );

/**
 * Families with times and sizes of the recorded process, its garbage collector, refusals by a queue limit, and its tool calls.
 */
const VALUES_DIFFER =
  /_created$|^vllm:(?:admission_rejections|tool_call_parser_invocations)_total$|^process_|^python_gc_/;
const withoutValues = (text: string) => text.replace(/^([a-z].*) \S+$/gm, "$1");

const recordings = [
  { name: "server", model: "golden", maxModelLen: 1024 },
  { name: "classes", model: "m", maxModelLen: 4096 },
];

for (const { name, model, maxModelLen } of recordings) {
  describe(`vLLM 0.33, ${name}`, async () => {
    const text = await Bun.file(
      `${import.meta.dir}/../../conformance/recorded/vllm-0.33-${name}-exposition.txt`,
    ).text();
    const real = parseExposition(text);
    // The classes ran outside a server: without its process and middleware, and without the estimates that are 0 in it.
    const server = name === "server";
    const of = {
      ...identity,
      startedS: 0,
      modelName: model,
      ownProcess: server,
      http: routesOf(real),
      parsesTools: server,
    };
    const page = await pages(of)("vllm", () => snapshotOf(real));
    const ours = parseExposition(page);
    const wanted = real.filter(({ name }) => !isLeftOut(name));

    test("families that are left out are listed, and no other is missing", () => {
      const missing = real.map(({ name }) => name).filter((name) => !ours.some((family) => family.name === name));
      expect(missing.filter((name) => !isLeftOut(name))).toEqual([]);
      expect(ours.filter(({ name }) => isLeftOut(name))).toEqual([]);
    });

    test("has the same families in the same order", () => {
      const names = ours.map(({ name }) => name);
      const known = server ? names : names.filter((name) => !/^(vllm:estimated|http)_/.test(name));
      expect(known).toEqual(wanted.map(({ name }) => name));
    });

    test.each(wanted.map((family) => [family.name, family] as const))("%s has the recorded text", (name, family) => {
      const found = ours.find((family) => family.name === name)!;
      if (name === "vllm:cache_config_info") {
        expect([found.help, found.type]).toEqual([family.help, family.type]); // labels: see the last test
      } else if (VALUES_DIFFER.test(name)) {
        expect(withoutValues(found.text)).toBe(withoutValues(family.text));
      } else expect(found.text).toBe(family.text);
    });

    test("bounds follow from max_model_len", () => {
      for (const [key, bounds] of Object.entries(histogramBounds({ maxModelLen }))) {
        const family = real.find(({ name }) => name === `vllm:${HISTOGRAM_FAMILIES[key as HistogramName]}`)!;
        expect(histogramOf(family).bounds).toEqual(bounds);
      }
    });
  });
}

test("cache_config_info has the server's labels, except for fields that the engine's process resolves", async () => {
  const text = await Bun.file(`${import.meta.dir}/../../conformance/recorded/vllm-0.33-server-exposition.txt`).text();
  const real = parseExposition(text).find(({ name }) => name === "vllm:cache_config_info")!;
  // `--block-size 16 --num-gpu-blocks-override 512`, max_model_len 1024, engine and server in one process.
  const config = {
    engine: { blockSize: 16, numGpuBlocks: 512, maxModelLen: 1024, enablePrefixCaching: true },
    dataParallelSize: 1,
    workers: 1,
    deployment: { gpuMemoryUtilization: 0.92, numGpuBlocksOverride: 512 },
  } as ServeConfig;
  const cacheConfig = cacheConfigLabels(config);
  const page = await pages({ ...identity, cacheConfig })("vllm", () => emptySnapshot());
  const ours = parseExposition(page).find(({ name }) => name === "vllm:cache_config_info")!;
  const inOneProcess = { kv_cache_layout: "None", user_specified_block_size: "False" };
  expect(ours.samples[0]!.labels).toEqual(
    real.samples[0]!.labels.map(([name, value]) => [name, inOneProcess[name as "kv_cache_layout"] ?? value]),
  );
});

function snapshotOf(real: readonly ParsedFamily[]): Snapshot {
  const family = (name: string) => real.find((family) => family.name === `vllm:${name}`)!;
  const value = (name: string, label?: string) =>
    family(name).samples.find(({ labels }) => !label || labels.some(([, value]) => value === label))!.value;
  const engine: EngineSnapshot = {
    ...emptyEngine(),
    running: value("num_requests_running"),
    waiting: value("num_requests_waiting_by_reason", "capacity"),
    deferred: value("num_requests_waiting_by_reason", "deferred"),
    kvUsage: value("kv_cache_usage_perc"),
    promptTokens: value("prompt_tokens_total"),
    promptTokensCached: value("prompt_tokens_cached_total"),
    generationTokens: value("generation_tokens_total"),
    preemptionsTold: value("num_preemptions_total"),
    prefixQueries: value("prefix_cache_queries_total"),
    prefixHits: value("prefix_cache_hits_total"),
    // 7 clients disconnected, which vLLM's counter must not show.
    finished: [
      value("request_success_total", "stop"),
      value("request_success_total", "length"),
      7,
      value("request_success_total", "error"),
      value("request_success_total", "repetition"),
    ],
    histograms: Object.fromEntries(
      Object.entries(HISTOGRAM_FAMILIES).map(([key, name]) => [key, histogramOf(family(name))]),
    ) as EngineSnapshot["histograms"],
  };
  const empty = emptySnapshot([engine]);
  return real.some(({ name }) => name === "http_requests_total")
    ? { ...empty, front: { ...empty.front, http: httpOf(real) } }
    : empty;
}

type Sample = ParsedFamily["samples"][number];
const label = ({ labels }: Sample, wanted: string) => labels.find(([name]) => name === wanted)![1];

/** Handlers and methods of the recording, one row each. */
function routesOf(real: readonly ParsedFamily[]): HttpRoute[] {
  const counted = real.find(({ name }) => name === "http_request_duration_seconds")?.samples ?? [];
  return counted
    .filter(({ name }) => name.endsWith("_count"))
    .map((sample) => ({ handler: label(sample, "handler"), method: label(sample, "method") }));
}

/** Returns the numbers of our accounts that match the recorded ones. */
function httpOf(real: readonly ParsedFamily[]): Snapshot["front"]["http"] {
  const samples = (family: string) => real.find(({ name }) => name === family)!.samples;
  const routes = routesOf(real).flatMap(({ handler, method }) => {
    const row = Array<number>(HTTP_WIDTH).fill(0);
    const mine = (sample: Sample) =>
      label(sample, "handler") === handler &&
      (!sample.labels.some(([name]) => name === "method") || label(sample, "method") === method);
    const status = (sample: Sample) => STATUS_CLASSES.indexOf(label(sample, "status") as "2xx");
    for (const sample of samples("http_requests_total").filter(mine))
      row[HttpWord.answers + status(sample)] = sample.value;
    for (const sample of samples("http_requests_created").filter(mine))
      row[HttpWord.since + status(sample)] = sample.value;
    const sum = (family: string) =>
      samples(family).find((sample) => sample.name === `${family}_sum` && mine(sample))!.value;
    const below = samples("http_request_duration_seconds").filter(
      (sample) => sample.name.endsWith("_bucket") && mine(sample),
    );
    below.forEach(({ value }, i) => {
      row[HttpWord.buckets + i] = value - (below[i - 1]?.value ?? 0);
    });
    row[HttpWord.seconds] = sum("http_request_duration_seconds");
    row[HttpWord.requestBytes] = sum("http_request_size_bytes");
    row[HttpWord.responseBytes] = sum("http_response_size_bytes");
    return row;
  });
  return { routes, duration: histogramOf(real.find(({ name }) => name === "http_request_duration_highr_seconds")!) };
}

/** Buckets that are not cumulative, as the core counts. */
function histogramOf({ name, samples }: ParsedFamily): HistogramSnapshot {
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const sampleOf = (suffix: string) => samples.find((sample) => sample.name === name + suffix)!.value;
  return {
    bounds: buckets.slice(0, -1).map(({ labels }) => Number(labels.find(([label]) => label === "le")![1])),
    buckets: buckets.map(({ value }, index) => value - (buckets[index - 1]?.value ?? 0)),
    sum: sampleOf("_sum"),
    count: sampleOf("_count"),
  };
}

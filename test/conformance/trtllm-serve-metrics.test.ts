/**
 * Checks that the drained records and `/prometheus/metrics` of the role trtllm-serve describe the engine's work. Each of the
 * 65 families moves here or has a reason, and no law is violated under load.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import type { Iteration } from "../../src/engine/iterations.ts";
import { Iterations } from "../../src/engine/iterations.ts";
import { ServeCounts } from "../../src/servers/trtllm/counts.ts";
import { prometheusPage, trtllmFamilies } from "../../src/servers/trtllm/families.ts";
import { timestamp } from "../../src/servers/trtllm/reports.ts";
import { checkScrapes } from "../../src/tools/check/index.ts";

setDefaultTimeout(30_000);

/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;

function configOf(line: string) {
  const flags = `--role trtllm-serve --port 0 --max-seq-len 1024 ${line}`.split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved.config;
}
const start = (line: string): Promise<RenewableApp> => createRenewableApp(configOf(line), { log: () => {} });

const complete = (app: RenewableApp, more: object) =>
  fetch(`${app.url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m", max_tokens: 4, ignore_eos: true, ...more }),
    headers: { "content-type": "application/json" },
  });
const page = async (app: RenewableApp) => (await fetch(`${app.url}/prometheus/metrics`)).text();
const ids = (from: number, count: number) => Array.from({ length: count }, (_, i) => 10 + ((from + i * 7) % 5000));

let statistics: RenewableApp;
let prometheus: RenewableApp;
beforeAll(async () => {
  const all = "--enable-iter-perf-stats --event-buffer-max-size 64";
  statistics = await start(`--timing none --num-gpu-blocks-override 41 ${all}`);
  prometheus = await start(`--timing none --return-perf-metrics --perf-metrics-max-requests 2 ${all}`);
});
afterAll(() => Promise.all([statistics.close(0), prometheus.close(0)]));

const drain = async (app: RenewableApp, path = "/metrics", method = "GET"): Promise<Json> =>
  (await fetch(app.url + path, { method })).json();

const RECORD =
  "attentionDpRank cpuMemUsage gpuMemUsage inflightBatchingStats iter iterLatencyMS kvCacheIterationStats kvCacheStats maxBatchSizeRuntime maxBatchSizeStatic maxBatchSizeTunerRecommended maxNumActiveRequests maxNumTokensRuntime maxNumTokensStatic maxNumTokensTunerRecommended newActiveRequestsQueueLatencyMS numActiveRequests numCompletedRequests numNewActiveRequests numQueuedRequests pinnedMemUsage schedulerMode specDecodingStats staticBatchingStats timestamp";
const INFLIGHT =
  "avgNumDecodedTokensPerIter microBatchId numContextRequests numCtxKvTokens numCtxTokens numGenKvTokens numGenRequests numPausedKvTokens numPausedRequests numQueuedContextRequests numQueuedCtxTokens numQueuedGenKvTokens numQueuedGenRequests numScheduledRequests";

test("/metrics: a record per iteration, read once; an idle engine makes none, and a reader waits two seconds", async () => {
  await complete(statistics, { prompt: ids(0, 70), max_tokens: 3 });
  const records = await drain(statistics);
  expect(records.map(({ iter }: Json) => iter)).toEqual(records.map((_: Json, i: number) => records[0].iter + i));
  const [context, ...rest] = records;
  expect(Object.keys(context).join(" ")).toBe(RECORD);
  expect(Object.keys(context.inflightBatchingStats).join(" ")).toBe(INFLIGHT);
  expect(context.inflightBatchingStats).toMatchObject({ numContextRequests: 1, numCtxTokens: 70, numCtxKvTokens: 0 });
  expect(context).toMatchObject({ numNewActiveRequests: 1, numActiveRequests: 1, numCompletedRequests: 0 });
  expect(context.kvCacheStats).toMatchObject({
    maxNumBlocks: 40,
    tokensPerBlock: 32,
    usedNumBlocks: 3,
    missedBlocks: 3,
  });
  expect(rest[0].inflightBatchingStats).toMatchObject({
    numGenRequests: 1,
    numScheduledRequests: 1,
    numGenKvTokens: 70,
  });
  const completed = records.reduce((sum: number, { numCompletedRequests }: Json) => sum + numCompletedRequests, 0);
  expect([completed, records.at(-1).kvCacheStats.usedNumBlocks]).toEqual([1, 0]);
  expect(context.timestamp).toMatch(/^\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{6}$/);
  const since = performance.now();
  expect(await drain(statistics)).toEqual([]);
  expect(performance.now() - since).toBeGreaterThan(1900);
  const waiting = drain(statistics);
  await complete(statistics, { prompt: ids(1, 5) });
  expect((await waiting).length).toBeGreaterThan(0);
});

test("floats have Python's format, and times of day are local", async () => {
  await complete(statistics, { prompt: ids(2, 5) });
  const text = await (await fetch(`${statistics.url}/metrics`)).text();
  expect(text).toContain('"avgNumDecodedTokensPerIter":0.0');
  const at = new Date(2026, 2, 4, 5, 6, 7);
  expect(timestamp(at.getTime() * 1000 + 89)).toBe("03-04-2026 05:06:07.000089");
});

test("/kv_cache_events has numbered events, each read once: created, stored with tokens and parent, removed", async () => {
  const prompt = ids(3, 70);
  await complete(statistics, { prompt });
  const events = await drain(statistics, "/kv_cache_events", "POST");
  expect(events[0]).toEqual({
    event_id: 0,
    data: { type: "created", num_blocks_per_cache_level: [40, 0] },
    window_size: 1024,
  });
  const stored = events.filter(({ data }: Json) => data.type === "stored").map(({ data }: Json) => data);
  const mine = stored.find(({ blocks: [block] }: Json) => block.tokens[0]?.token_id === prompt[0]);
  expect(mine).toMatchObject({ parent_hash: null });
  expect(mine.blocks.flatMap(({ tokens }: Json) => tokens.map((token: Json) => token.token_id))).toEqual(
    prompt.slice(0, 64),
  );
  expect(mine.blocks[0]).toMatchObject({ type: "stored_block", cache_level: 0, priority: 35 });
  for (let i = 0; i < 14; i++) await complete(statistics, { prompt: ids(100 + 11 * i, 100) });
  const text = await (await fetch(`${statistics.url}/kv_cache_events`, { method: "POST" })).text();
  expect(text).toMatch(/"type":"removed","block_hashes":\[\d+(,\d+)*\]/);
  const numbers = [...text.matchAll(/"event_id":(\d+)/g)].map(([, id]) => Number(id));
  expect(numbers).toEqual(numbers.map((_, i) => numbers[0]! + i));
  expect(numbers.length).toBeLessThanOrEqual(64);
});

test("choices of a prompt count as one request, reported when the last has ended", async () => {
  const app = await start("--timing none --return-perf-metrics --perf-metrics-max-requests 9");
  const { usage } = (await (await complete(app, { prompt: [ids(0, 5), ids(9, 5)], n: 3 })).json()) as Json;
  expect(usage.completion_tokens).toBe(24);
  await complete(app, { prompt: ids(0, 7) });
  // A request has the number of its first choice.
  const metrics = await drain(app, "/perf_metrics");
  expect(metrics.map(({ request_id }: Json) => request_id).sort()).toEqual([1, 4, 7]);
  const text = await page(app);
  for (const [name, value] of [
    ["e2e_request_latency_seconds_count", 3],
    ["time_per_output_token_seconds_count", 1],
    ["prompt_tokens_total", 17],
    ["generation_tokens_total", 12],
  ])
    expect(text).toContain(`trtllm_${name}{engine_type="undefined",model_name="undefined"} ${value}.0\n`);
  await app.close(0);
});

test("/perf_metrics: the last requests, read once, with times in seconds of a steady clock", async () => {
  for (let i = 0; i < 3; i++) await complete(prometheus, { prompt: ids(i, 40) });
  const all = await drain(prometheus, "/perf_metrics");
  expect(all.map(({ request_id }: Json) => request_id)).toEqual([2, 3]);
  const { timing_metrics: times, kv_cache_metrics: kv, first_iter, last_iter } = all[1].perf_metrics;
  expect(Object.keys(times)).toEqual(
    "server_arrival_time arrival_time first_scheduled_time first_token_time server_first_token_time last_token_time".split(
      " ",
    ),
  );
  const { arrival_time, first_scheduled_time, first_token_time, last_token_time } = times;
  const rising = [arrival_time, first_scheduled_time, first_token_time, last_token_time];
  expect(rising.toSorted((a: number, b: number) => a - b)).toEqual(rising);
  expect(last_iter - first_iter).toBe(3);
  expect(kv.num_reused_blocks + kv.num_missed_blocks).toBe(2);
  expect(await drain(prometheus, "/perf_metrics")).toEqual([]);
});

test("with --enable-iter-req-stats a record has each request's stage, progress and blocks", async () => {
  const flags = "--enable-iter-perf-stats --enable-iter-req-stats --max-num-tokens 64 --enable-chunked-prefill";
  const app = await start(`--timing none --disable-overlap-scheduler --num-gpu-blocks-override 41 ${flags}`);
  try {
    await complete(app, { prompt: ids(0, 100), max_tokens: 3 });
    const text = await (await fetch(`${app.url}/metrics`)).text();
    const records = JSON.parse(text) as Json[];
    const rows = records.map(({ requestStats: [stats] }) => [
      stats.id,
      stats.stage,
      stats.contextPrefillPosition,
      stats.numGeneratedTokens,
      stats.scheduled,
    ]);
    expect(rows).toEqual([
      [1, "CONTEXT_IN_PROGRESS", 64, 0, true],
      [1, "GENERATION_IN_PROGRESS", 100, 1, true],
      [1, "GENERATION_IN_PROGRESS", 100, 2, true],
      [1, "GENERATION_COMPLETE", 100, 3, true],
    ]);
    expect(Object.keys(records[0].requestStats[0]).join(" ")).toBe(REQUEST);
    expect(records[0].requestStats[0]).toMatchObject({
      paused: false,
      disServingStats: null,
      reusedBlocksPerRequest: 0,
    });
    expect(text).toContain('"kvCacheHitRatePerRequest":0.0');
    expect(Object.keys(records[0]).at(-1)).toBe("requestStats");
    // The prompt is known by now, so most of its blocks are reused.
    await Promise.all([complete(app, { prompt: ids(0, 100) }), complete(app, { prompt: ids(3, 40) })]);
    const more = ((await drain(app)) as Json[]).flatMap(({ requestStats }) => requestStats);
    expect(new Set(more.map(({ id }) => id))).toEqual(new Set([2, 3]));
    expect(more.find(({ id, stage }) => id === 2 && stage === "GENERATION_COMPLETE")).toMatchObject({
      reusedBlocksPerRequest: 4,
      numGeneratedTokens: 4,
    });
  } finally {
    await app.close(0);
  }
});
const REQUEST =
  "allocNewBlocksPerRequest allocTotalBlocksPerRequest avgNumDecodedTokensPerIter contextPrefillPosition disServingStats id kvCacheHitRatePerRequest missedBlocksPerRequest numGeneratedTokens paused reusedBlocksPerRequest scheduled stage";

test("finished requests drain the records of /metrics", async () => {
  await complete(prometheus, { prompt: ids(9, 9) });
  await Bun.sleep(20);
  expect((await drain(prometheus)).length).toBeLessThan(4);
});

/** Families that nothing here can move, with the reason. */
const NO_SPECULATION = "nothing is drafted here";
const NO_HOST = "there is no pool of blocks on the host or on disk";
const EXCUSED: Readonly<Record<string, string>> = {
  prompt_cache_hit_tokens_total: "the KV cache manager V2 tells of levels; V1 stands here",
  spec_decode_drafted_tokens_total: NO_SPECULATION,
  spec_decode_accepted_tokens_total: NO_SPECULATION,
  spec_decode_num_draft_tokens_total: NO_SPECULATION,
  spec_decode_num_accepted_tokens_total: NO_SPECULATION,
  spec_decode_acceptance_length: NO_SPECULATION,
  spec_decode_draft_overhead: NO_SPECULATION,
  speculative_config_info: NO_SPECULATION,
  prefill_perplexity: "without weights there is no likelihood of a prompt",
  generation_perplexity: "without weights there is no likelihood of an answer",
  kv_cache_host_utilization: NO_HOST,
  kv_cache_disk_prefetch_blocks_total: NO_HOST,
};
/** Families that the real server shows as 0 with the PyTorch backend or without a host pool. */
const ZERO = [
  ...["cpu_memory_usage_bytes", "pinned_memory_usage_bytes", "avg_decoded_tokens_per_iter"],
  ...[
    "max_batch_size_runtime",
    "max_num_tokens_runtime",
    "kv_cache_onboard_bytes_total",
    "kv_cache_offload_bytes_total",
  ],
];
const NAMES =
  "request_success_total e2e_request_latency_seconds time_to_first_token_seconds time_per_output_token_seconds request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds request_inference_time_seconds prompt_tokens_total generation_tokens_total prompt_cached_tokens_total prompt_cached_tokens_per_request prompt_cache_hit_tokens_total spec_decode_drafted_tokens_total spec_decode_accepted_tokens_total prefill_perplexity generation_perplexity request_error_total kv_cache_hit_rate kv_cache_utilization kv_cache_reused_blocks_total kv_cache_missed_blocks_total kv_cache_host_utilization kv_cache_iter_reuse_rate kv_cache_iter_reused_blocks_total kv_cache_iter_full_reused_blocks_total kv_cache_iter_partial_reused_blocks_total kv_cache_iter_missed_blocks_total kv_cache_gen_alloc_blocks_total kv_cache_onboard_bytes_total kv_cache_offload_bytes_total kv_cache_disk_prefetch_blocks_total kv_cache_intra_device_copy_bytes_total num_requests_running num_requests_waiting num_requests_completed_total max_num_active_requests iteration_latency_seconds gpu_memory_usage_bytes cpu_memory_usage_bytes pinned_memory_usage_bytes max_batch_size_static max_batch_size_runtime max_num_tokens_runtime kv_cache_max_blocks kv_cache_free_blocks kv_cache_used_blocks kv_cache_tokens_per_block num_context_requests num_generation_requests num_paused_requests num_scheduled_requests total_context_tokens avg_decoded_tokens_per_iter spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total spec_decode_acceptance_length spec_decode_draft_overhead prefill_batch_occupancy prefill_batch_tokens scheduled_batch_size model_config_info parallel_config_info speculative_config_info kv_cache_config_info".split(
    " ",
  );

test("the 65 families are those in the table and at most 15 with a reason", () => {
  expect(NAMES).toHaveLength(65);
  const shown = trtllmFamilies.map(({ name }) => name.slice("trtllm_".length));
  expect([...shown, ...Object.keys(EXCUSED)].sort()).toEqual([...NAMES].sort());
  expect(Object.keys(EXCUSED).length).toBeLessThanOrEqual(15);
});

/** Returns the names of the families on a page, without the prefix. */
const familiesOn = (text: string) => [...text.matchAll(/^# TYPE trtllm_(\w+) /gm)].map(([, name]) => name!);
/** Returns the first sample of a family. */
function sampleOf(text: string, name: string): number {
  const line = text.split("\n").find((line) => line.startsWith(`trtllm_${name}{`));
  return line === undefined ? Number.NaN : Number(line.slice(line.lastIndexOf(" ") + 1));
}

test("before the first request there are constants, the batch, and no cached tokens", async () => {
  const fresh = await start("--timing none --return-perf-metrics --enable-iter-perf-stats");
  expect(familiesOn(await page(fresh)).sort()).toEqual([
    "kv_cache_config_info",
    "model_config_info",
    "parallel_config_info",
    "prompt_cached_tokens_total",
    "scheduled_batch_size",
  ]);
  await fresh.close(0);
});

test("requests move their families when they end, and without iteration statistics there are no iteration families", async () => {
  const plain = await start("--timing constant:ttft=4ms,itl=2ms --return-perf-metrics");
  const running = complete(plain, { prompt: ids(0, 64), max_tokens: 20 });
  while (sampleOf(await page(plain), "scheduled_batch_size") !== 1) await Bun.sleep(2);
  expect(sampleOf(await page(plain), "generation_tokens_total")).toBeNaN();
  await running;
  await complete(plain, { prompt: ids(0, 64), max_tokens: 1 });
  await complete(plain, { prompt: ids(0, 64), stop: ["e", "a"], max_tokens: 200 });
  await complete(plain, { suffix: "no", prompt: "x" });
  await Bun.sleep(20);
  const text = await page(plain);
  expect(sampleOf(text, "prompt_tokens_total")).toBe(192);
  expect(sampleOf(text, "generation_tokens_total")).toBeGreaterThan(21);
  expect(sampleOf(text, "prompt_cached_tokens_total")).toBe(126);
  expect(sampleOf(text, "prompt_cached_tokens_per_request_sum")).toBe(126);
  expect(text).toContain('finished_reason="length",model_name="undefined"} 2.0');
  expect(text).toContain('finished_reason="stop",model_name="undefined"} 1.0');
  expect(text).toContain(
    'trtllm_request_error_total{engine_type="undefined",http_code="400",model_name="undefined"} 1.0',
  );
  const counts =
    "e2e_request_latency time_to_first_token request_queue_time request_prefill_time request_inference_time";
  for (const name of counts.split(" ")) expect([name, sampleOf(text, `${name}_seconds_count`)]).toEqual([name, 3]);
  // One token has no decode time, and 0 is not observed.
  for (const name of ["request_decode_time", "time_per_output_token"])
    expect([1, 2]).toContain(sampleOf(text, `${name}_seconds_count`));
  expect(sampleOf(text, "scheduled_batch_size")).toBe(0);
  expect(familiesOn(text)).not.toContain("num_requests_running");
  expect((await fetch(`${plain.url}/prometheus/metrics/`)).status).toBe(200);
  await plain.close(0);
});

test("iteration families show the newest record, and counters sum the reported records", () => {
  const config = configOf("--timing none --return-perf-metrics --enable-iter-perf-stats --num-gpu-blocks-override 101");
  const iterations = new Iterations(config.engine, config.iterations!);
  const counts = new ServeCounts(iterations);
  counts.listen();
  const facts = { config, epochUs: 0, gpuBytes: 11, blockBytes: 1000, pid: "7" };
  const kvHere = { allocated: 9, allocatedNew: 8, reused: 6, reusedPartly: 2, copied: 1, missed: 2, generated: 3 };
  const record: Iteration = {
    ...{ iter: 5, plannedUs: 1_000_000, endUs: 1_250_000, newActive: 1, newActiveWaitUs: 5, active: 40, queued: 3 },
    ...{ queuedTokens: 30, completed: 4, contexts: 5, generations: 6, contextTokens: 700, contextKvTokens: 8 },
    ...{
      generationKvTokens: 9,
      paused: 2,
      pausedKvTokens: 10,
      blocksUsed: 25,
      kv: { ...kvHere, reused: 30, missed: 10 },
      kvHere,
      requests: null,
    },
  };
  const ended = { id: 1, finish: 0, arrivalUs: 0, scheduledUs: 1, firstTokenUs: 2, endUs: 3, promptTokens: 4 };
  const request = { ...ended, cachedTokens: 0, outputTokens: 2, firstIter: 1, lastIter: 2, several: false };
  iterations.records!.add({ ...record, active: 1 });
  iterations.records!.add(record);
  iterations.ended!(request);
  iterations.records!.add(record);
  iterations.ended!(request);
  const text = prometheusPage(counts, facts);
  expect(iterations.records!.isEmpty).toBe(true);
  const gauges = {
    ...{
      num_requests_running: 40,
      num_requests_waiting: 3,
      max_num_active_requests: 2048,
      iteration_latency_seconds: 0.25,
    },
    ...{ gpu_memory_usage_bytes: 11, max_batch_size_static: 2048, kv_cache_max_blocks: 100, kv_cache_free_blocks: 75 },
    ...{ kv_cache_used_blocks: 25, kv_cache_tokens_per_block: 32, num_context_requests: 5, num_generation_requests: 6 },
    ...{ num_paused_requests: 2, num_scheduled_requests: 11, total_context_tokens: 700, kv_cache_hit_rate: 0.75 },
    ...{ prefill_batch_occupancy: 5 / 2048, kv_cache_utilization: 0.25, kv_cache_iter_reuse_rate: 0.75 },
  };
  for (const [name, value] of Object.entries(gauges)) {
    expect([name, sampleOf(text, name)]).toEqual([name, value]);
    expect(text).toContain(`trtllm_${name}{engine_type="undefined",model_name="undefined",pid="7"} `);
  }
  const counters = {
    ...{ num_requests_completed_total: 8, kv_cache_iter_reused_blocks_total: 12, kv_cache_iter_missed_blocks_total: 4 },
    ...{ kv_cache_iter_full_reused_blocks_total: 8, kv_cache_iter_partial_reused_blocks_total: 4 },
    ...{ kv_cache_gen_alloc_blocks_total: 6, kv_cache_intra_device_copy_bytes_total: 2000 },
    ...{ kv_cache_reused_blocks_total: 30, kv_cache_missed_blocks_total: 10, prefill_batch_tokens_sum: 1400 },
  };
  for (const [name, value] of Object.entries(counters)) expect([name, sampleOf(text, name)]).toEqual([name, value]);
  for (const name of ZERO) expect([name, sampleOf(text, name)]).toEqual([name, 0]);
  const constant = ["model_config_info", "parallel_config_info", "kv_cache_config_info"];
  for (const name of constant) expect([name, sampleOf(text, name)]).toEqual([name, 1]);
  expect(familiesOn(text).length).toBe(65 - Object.keys(EXCUSED).length - 1); // no request failed
});

test("under load with pauses, shared prefixes and disconnects no law is violated", async () => {
  const loaded = await start(
    "--timing linear:base=2ms,prefill=1us,decode=20us --capacity-scheduler-policy MAX_UTILIZATION --max-batch-size 8 --num-gpu-blocks-override 34 --return-perf-metrics --enable-iter-perf-stats",
  );
  const gone = new AbortController();
  const requests = Array.from({ length: 40 }, (_, i) => {
    const prompt = [...ids(0, 40), ...ids(i % 5, 20 + 3 * i)];
    const asked = complete(loaded, { prompt, max_tokens: 60 + ((i * 13) % 90) });
    return asked.then((response) => response.text());
  });
  const init = { method: "POST", headers: { "content-type": "application/json" }, signal: gone.signal };
  const body = JSON.stringify({ model: "m", prompt: ids(0, 50), max_tokens: 900, ignore_eos: true });
  const left = fetch(`${loaded.url}/v1/completions`, { ...init, body }).catch(() => {});
  const scrapes: string[] = [];
  let done = false;
  const all = Promise.all(requests).then(() => {
    done = true;
  });
  while (!done) {
    scrapes.push(await page(loaded));
    if (scrapes.length === 5) gone.abort();
    await Bun.sleep(25);
  }
  await all;
  await left;
  scrapes.push(await page(loaded));
  const { violated, laws, unreadable } = checkScrapes(scrapes);
  expect(violated.flatMap(({ violations }) => violations[0])).toEqual([]);
  expect(unreadable).toEqual([]);
  const looked = laws.filter(({ id, looks }) => /^S0[1-7]$/.test(id) && looks > 0).map(({ id }) => id);
  expect(looked).toEqual(["S01", "S02", "S03", "S04", "S05", "S06", "S07"]);
  expect(loaded.snapshot().engines[0]!.preemptions).toBeGreaterThan(0);
  // The truth log has the time at which each request resumed, and its cached blocks then.
  const truth = await (await fetch(`${loaded.url}/understudy/requests?limit=100`)).text();
  const rows: Json[] = truth
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const ended = rows.filter(({ type, reason }) => type === "request" && reason === "length");
  expect(ended.map(({ queuedUs, scheduledUs }) => scheduledUs >= queuedUs)).not.toContain(false);
  const pauses: Json[] = ended.flatMap(({ preempted }) => preempted);
  expect(pauses.length).toBeGreaterThan(0);
  expect(pauses.map(({ us, resumedUs }) => resumedUs > us)).not.toContain(false);
  expect(pauses.some(({ cachedTokens }) => cachedTokens > 0)).toBe(true);
  await loaded.close(0);
});

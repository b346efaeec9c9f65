/**
 * Compares the pages of older vLLM versions with names, order and help texts of each version's wheel (`v1/metrics/loggers.py`
 * from 0.8 on, `engine/metrics.py` before). Also compares values with the simulated engine.
 */
import { expect, test } from "bun:test";
import {
  CURRENT,
  profileName,
  showsHidden,
  VERSION_PROFILES,
  type VersionProfile,
} from "../../../src/metrics/config/metrics-profiles.ts";
import { pages } from "../../../src/metrics/page.ts";
import type { Row } from "../../../src/metrics/rows/table.ts";
import { vllmAt } from "../../../src/metrics/vllm/vllm-history.ts";
import { parseExposition } from "../parse.ts";
import { emptyEngine, emptyHistogram, emptySnapshot, identity } from "../snapshots.ts";

const names = (profile: VersionProfile, hidden = false) =>
  vllmAt(profile, hidden).map(({ name }) => name.replace("vllm:", ""));
const words = (text: string) => text.trim().split(/\s+/);

const EIGHT = words(`num_requests_running num_requests_waiting gpu_cache_usage_perc gpu_prefix_cache_queries_total
  gpu_prefix_cache_hits_total num_preemptions_total prompt_tokens_total generation_tokens_total request_success_total
  request_prompt_tokens request_generation_tokens iteration_tokens_total request_max_num_generation_tokens
  request_params_n request_params_max_tokens time_to_first_token_seconds time_per_output_token_seconds
  e2e_request_latency_seconds request_queue_time_seconds request_inference_time_seconds request_prefill_time_seconds
  request_decode_time_seconds lora_requests_info cache_config_info`);
const inserted = (list: readonly string[], before: string, ...more: string[]) =>
  list.flatMap((name) => (name === before ? [...more, name] : [name]));
const without = (list: readonly string[], ...gone: string[]) => list.filter((name) => !gone.includes(name));

const NINE = inserted(
  EIGHT,
  "num_preemptions_total",
  "kv_cache_usage_perc",
  "prefix_cache_queries_total",
  "prefix_cache_hits_total",
);
const TEN = inserted(NINE, "e2e_request_latency_seconds", "inter_token_latency_seconds");
const ELEVEN_HIDDEN = inserted(TEN, "e2e_request_latency_seconds", "request_time_per_output_token_seconds");
const GPU = ["gpu_cache_usage_perc", "gpu_prefix_cache_queries_total", "gpu_prefix_cache_hits_total"];
const ELEVEN = without(ELEVEN_HIDDEN, ...GPU);
const TWELVE_HIDDEN = inserted(
  inserted(ELEVEN, "kv_cache_usage_perc", "engine_sleep_state"),
  "num_preemptions_total",
  ...words(
    "external_prefix_cache_queries_total external_prefix_cache_hits_total mm_cache_queries_total mm_cache_hits_total",
  ),
);
const TWELVE = without(TWELVE_HIDDEN, "time_per_output_token_seconds");
const FOURTEEN = inserted(TWELVE, "lora_requests_info", "request_prefill_kv_computed_tokens");
const SIXTEEN = inserted(
  FOURTEEN,
  "generation_tokens_total",
  ...words("prompt_tokens_by_source_total prompt_tokens_cached_total prompt_tokens_recomputed_total"),
);
const EIGHTEEN = [
  ...words("estimated_flops_per_gpu_total estimated_read_bytes_per_gpu_total estimated_write_bytes_per_gpu_total"),
  ...SIXTEEN,
];
const TWENTY_TWO = inserted(
  without(EIGHTEEN, "prompt_tokens_recomputed_total"),
  "engine_sleep_state",
  "num_requests_waiting_by_reason",
);
const THIRTY = inserted(TWENTY_TWO, "request_prefill_kv_computed_tokens", "request_num_preemptions");

test.each([
  [8, false, EIGHT],
  [9, false, NINE],
  [10, false, TEN],
  [11, false, ELEVEN],
  [11, true, ELEVEN_HIDDEN],
  [12, false, TWELVE],
  [12, true, TWELVE_HIDDEN],
  [14, false, FOURTEEN],
  [16, false, SIXTEEN],
  [18, false, EIGHTEEN],
  [22, false, TWENTY_TWO],
  [26, false, TWENTY_TWO],
  [30, false, THIRTY],
] as const)("the families of 0.%i in their order (hidden ones: %p)", (profile, hidden, wanted) => {
  expect(names(profile, hidden)).toEqual([...wanted]);
});

test("0.6 has the names that dashboards of 2024 query, and 0.7 has no throughputs", () => {
  const six = names(6);
  for (const name of words(`num_requests_swapped gpu_cache_usage_perc cpu_cache_usage_perc gpu_prefix_cache_hit_rate
    tokens_total time_per_output_token_seconds time_in_queue_requests avg_prompt_throughput_toks_per_s
    avg_generation_throughput_toks_per_s spec_decode_efficiency model_forward_time_milliseconds`)) {
    expect(six).toContain(name);
  }
  expect(names(7)).toEqual(six.filter((name) => !name.startsWith("avg_")));
});

test("the option shows hidden families for the previous version only", () => {
  expect([
    showsHidden(11, "0.10"),
    showsHidden(11, "0.10.2"),
    showsHidden(11, "0.9"),
    showsHidden(11, undefined),
  ]).toEqual([true, true, false, false]);
  // 0.33 hides nothing.
  expect(names(CURRENT, true)).toEqual(names(CURRENT));
});

const histogram = emptyHistogram([0.01, 2.5, 5, 10, 20]);
const engine = {
  ...emptyEngine(),
  running: 3,
  kvUsage: 0.5,
  prefixQueries: 100,
  prefixHits: 48,
  promptTokens: 70,
  generationTokens: 30,
  finished: [1, 2, 3, 4, 5] as const,
};
const seen = {
  ...engine,
  histograms: {
    ...engine.histograms,
    interTokenLatency: { ...histogram, buckets: [1, 2, 3, 4, 5, 6], sum: 50, count: 21 },
    timeToFirstToken: { ...histogram, buckets: [1, 2, 3, 4, 5, 6], sum: 50, count: 21 },
  },
};
async function page(profile: VersionProfile, engines = [seen], showHidden = false) {
  const text = await pages({ ...identity, profile, showHidden })("vllm", () => emptySnapshot(engines));
  const samples = parseExposition(text).flatMap(({ samples }) => samples);
  return {
    text,
    value: (series: string) =>
      samples.find(({ name, labels }) => `${name}{${labels.map(([l, v]) => `${l}="${v}"`).join(",")}}` === series)
        ?.value,
  };
}

test("the old names follow the simulated engine: gpu_cache_usage_perc, gpu_prefix_cache_queries_total, gpu_prefix_cache_hits_total, time_per_output_token_seconds", async () => {
  const labels = '{engine="0",model_name="m"}';
  const eight = await page(8);
  expect(eight.value(`vllm:gpu_cache_usage_perc${labels}`)).toBe(0.5);
  // In blocks of 16 tokens, as its help text says.
  expect(eight.value(`vllm:gpu_prefix_cache_queries_total${labels}`)).toBe(6);
  expect(eight.value(`vllm:gpu_prefix_cache_hits_total${labels}`)).toBe(3);
  expect(eight.value(`vllm:time_per_output_token_seconds_count${labels}`)).toBe(21);
  expect(eight.text).not.toContain('finished_reason="error"');
  const ten = await page(10);
  expect(ten.value(`vllm:gpu_prefix_cache_hits_total${labels}`)).toBe(48);
  expect(ten.text).toContain("number of queriedtokens. DEPRECATED: Use vllm:prefix_cache_queries instead.");
  expect((await page(14)).text).toContain('finished_reason="error"');
  expect((await page(16)).text).not.toContain('finished_reason="repetition"');
});

test("0.6 has no engine label, adds engines up, and ends buckets where they ended", async () => {
  const six = await page(6, [seen, seen]);
  const labels = '{model_name="m"}';
  const of = (name: string) => six.value(`vllm:${name}${labels}`);
  expect([of("num_requests_running"), of("gpu_cache_usage_perc"), of("gpu_prefix_cache_hit_rate")]).toEqual([
    6, 0.5, 0.48,
  ]);
  expect([of("prompt_tokens_total"), of("generation_tokens_total"), of("tokens_total")]).toEqual([140, 60, 200]);
  expect(six.value('vllm:request_success_total{finished_reason="abort",model_name="m"}')).toBe(6);
  const bucket = (name: string, le: string) => six.value(`vllm:${name}_bucket{le="${le}",model_name="m"}`);
  expect(["10.0", "20.0", "+Inf"].map((le) => bucket("time_to_first_token_seconds", le))).toEqual([20, undefined, 42]);
  expect(["2.5", "5.0", "+Inf"].map((le) => bucket("time_per_output_token_seconds", le))).toEqual([6, undefined, 42]);
  expect(six.text).not.toContain("engine=");
});

test("every row of every version names the test that changes it, or the reason why it never changes", () => {
  const rows = VERSION_PROFILES.flatMap((profile) =>
    vllmAt(profile, true).map((row): [string, Row] => [profileName(profile), row]),
  );
  for (const [, { proof }] of rows) {
    if ("still" in proof) expect(proof.still.length).toBeGreaterThan(10);
    else expect(proof.moves).toMatch(/^test\//);
  }
});

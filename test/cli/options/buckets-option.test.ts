/** Tests the effect of --custom-histogram-buckets and --kv-cache-dtype on metrics, and their refused values. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { createServer } from "../../../src/embed/bun.ts";
import { checkScrapes } from "../../../src/tools/check/index.ts";

const resolve = (...argv: string[]) => resolveServeConfig(argv, {}, () => "");
const refused = (...argv: string[]) => {
  const made = resolve(...argv);
  return "error" in made ? made.error : "accepted";
};
const accepted = (...argv: string[]) => {
  const made = resolve(...argv);
  if (!("config" in made)) throw new Error(JSON.stringify(made));
  return made;
};

const BUCKETS = {
  request_latency: [0.01, 0.5, 100],
  inter_token_latency: [0.001, 2],
  time_to_first_token: [0.0001, 60],
  iteration_tokens: [4, 5],
  request_params_n: [1.5],
  request_num_preemptions: [1],
  request_tokens: [10, 100],
};
const FAMILIES: Readonly<Record<keyof typeof BUCKETS, readonly string[]>> = {
  request_latency: [
    "e2e_request_latency",
    "request_queue_time",
    "request_inference_time",
    "request_prefill_time",
    "request_decode_time",
  ].map((name) => `${name}_seconds`),
  inter_token_latency: ["inter_token_latency_seconds", "request_time_per_output_token_seconds"],
  time_to_first_token: ["time_to_first_token_seconds"],
  iteration_tokens: ["iteration_tokens_total"],
  request_params_n: ["request_params_n"],
  request_num_preemptions: ["request_num_preemptions"],
  request_tokens: [
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_params_max_tokens",
    "request_max_num_generation_tokens",
    "request_prefill_kv_computed_tokens",
  ],
};

test("custom bounds apply to all histograms of their family, and the check finds no violation", async () => {
  const server = await createServer({ timing: "constant:ttft=2ms,itl=1ms", customHistogramBuckets: BUCKETS }).ready;
  const page = async () => (await fetch(`${server.url}/metrics`)).text();
  const before = await page();
  const body = JSON.stringify({ prompt: "Hello there", max_tokens: 20, ignore_eos: true });
  const headers = { "content-type": "application/json" };
  for (let i = 0; i < 3; i++)
    await (await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body })).text();
  const text = await page();
  await server.close();
  for (const [key, names] of Object.entries(FAMILIES)) {
    const bounds = BUCKETS[key as keyof typeof BUCKETS];
    for (const name of names) {
      const found = [...text.matchAll(new RegExp(`^vllm:${name}_bucket\\{.*le="([^"]+)".*\\} (.+)$`, "gm"))];
      expect([name, found.map(([, le]) => Number(le!.replace("+Inf", "Infinity")))]).toEqual([
        name,
        [...bounds, Number.POSITIVE_INFINITY],
      ]);
      const counts = found.map(([, , count]) => Number(count));
      expect(counts.toSorted((a, b) => a - b)).toEqual(counts);
      expect(counts.at(-1)).toBeGreaterThanOrEqual(3);
    }
  }
  // Each answer has 20 tokens, between the bounds 10 and 100.
  expect(text).toMatch(/vllm:request_generation_tokens_bucket\{.*le="10.0".*\} 0.0/);
  expect(text).toMatch(/vllm:request_generation_tokens_bucket\{.*le="100.0".*\} 3.0/);
  expect(wrong(before)).toEqual([]);
  expect(wrong(text)).toEqual([]);
});

const wrong = (text: string) => {
  const { violated, laws } = checkScrapes([text]);
  return [...violated, ...laws.filter(({ verdict }) => verdict === "note")].map(({ id }) => id);
};

test("the check still finds different bounds in the histograms of one family", async () => {
  const server = await createServer({ timing: "none" }).ready;
  const text = await (await fetch(`${server.url}/metrics`)).text();
  await server.close();
  const moved = text.replaceAll(/(vllm:request_queue_time_seconds_bucket\{.*le=)"0.8"/g, '$1"0.9"');
  expect([wrong(text).length, wrong(moved).includes("G09")]).toEqual([0, true]);
});

test.each([
  ['{"request_latency":[1,1]}', "['request_latency']: bounds [1.0, 1.0] must be strictly increasing"],
  ['{"request_latency":[2,1]}', "bounds [2.0, 1.0] must be strictly increasing"],
  ['{"ttft":[1]}', "unknown bucket family 'ttft'; known families: ['inter_token_latency', 'iteration_tokens',"],
  ['{"request_tokens":[]}', "['request_tokens']: bucket list must not be empty"],
  ['{"request_tokens":[true]}', "bound True must be a number, not a boolean"],
  ['{"request_tokens":[0]}', "bound 0.0 must be finite and greater than 0"],
  ['{"request_tokens":[1e999]}', "must be finite and greater than 0"],
  ['{"request_tokens":["1"]}', 'bound "1" must be a number'],
  ['{"request_tokens":1}', "['request_tokens']: a list of numbers is needed"],
  ["[1]", "takes a JSON object of rising bounds"],
  ["nonsense", "takes a JSON object of rising bounds"],
  [JSON.stringify({ request_tokens: Array.from({ length: 64 }, (_, i) => i + 1) }), "at most 63 bounds, not 64"],
])("--custom-histogram-buckets %s is refused", (text, why) => {
  expect(refused("--custom-histogram-buckets", text)).toStartWith("--custom-histogram-buckets: ");
  expect(refused("--custom-histogram-buckets", text)).toContain(why);
});

test("63 bounds, the core's limit, are accepted, and so are bounds of a family that is not shown", () => {
  const most = Array.from({ length: 63 }, (_, i) => i + 1);
  const { config } = accepted(
    "--custom-histogram-buckets",
    JSON.stringify({ request_tokens: most, kv_cache_residency: [1] }),
  );
  expect(config.engine.histogramBuckets).toEqual({ request_tokens: most, kv_cache_residency: [1] });
});

test.each(["fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"])(
  "--kv-cache-dtype %s doubles the tokens of the pool, at any share of the memory",
  (dtype) => {
    for (const more of [[], ["--gpu-memory-utilization", "0.7"], ["Qwen/Qwen3-32B"]]) {
      const blocks = (...argv: string[]) => accepted(...more, ...argv).config.engine.numGpuBlocks;
      expect(Math.floor(blocks("--kv-cache-dtype", dtype) / 2)).toBe(blocks());
      expect(blocks("--kv-cache-dtype", "bfloat16")).toBe(blocks());
    }
    expect(accepted("--kv-cache-dtype", dtype, "--num-gpu-blocks-override", "9000").config.engine.numGpuBlocks).toBe(
      9000,
    );
  },
);

test("cache_config_info has type and blocks, an unknown effect on the pool gives a notice, other types are refused", async () => {
  const server = await createServer({ timing: "none", kvCacheDtype: "fp8" }).ready;
  const text = await (await fetch(`${server.url}/metrics`)).text();
  await server.close();
  expect(text).toMatch(/vllm:cache_config_info\{.*,cache_dtype="fp8",.*num_gpu_blocks="58411"/);
  const { config, notices } = accepted("--kv-cache-dtype", "nvfp4");
  expect([config.engine.numGpuBlocks, config.deployment.kvCacheDtype]).toEqual([29205, "nvfp4"]);
  expect(notices.join()).toContain("--kv-cache-dtype nvfp4: its effect on the size of the KV cache is unknown");
  expect(refused("--kv-cache-dtype", "fp16")).toMatch(/^--kv-cache-dtype: takes auto or float16 or .*, not "fp16"$/);
});

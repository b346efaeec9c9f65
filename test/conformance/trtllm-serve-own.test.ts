/** Tests the routes that only the role trtllm-serve has, when it notices disconnects, and its options. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(20_000);

async function start(line: string): Promise<RenewableApp> {
  const flags = `--role trtllm-serve --port 0 --max-seq-len 2048 ${line}`.split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createRenewableApp(resolved.config, { log: () => {} });
}

let app: RenewableApp;
beforeAll(async () => {
  app = await start("--timing none");
});
afterAll(() => app.close(0));

const get = (path: string) => fetch(app.url + path);
const post = (path: string, body: object) =>
  fetch(app.url + path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
const MESSAGES = [{ role: "user", content: "Say something." }];
/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;
const json = async (response: Promise<Response>): Promise<Json> => (await response).json();

test("requests join and leave the batch at each iteration, so the shorter of two ends first", async () => {
  const slow = await start("--timing constant:ttft=5ms,itl=5ms");
  const ends: number[] = [];
  const ask = async (max_tokens: number) => {
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens, ignore_eos: true });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${slow.url}/v1/completions`, { method: "POST", body, headers })).text();
    ends.push(max_tokens);
  };
  await Promise.all([ask(60), ask(4)]);
  expect(ends).toEqual([4, 60]);
  await slow.close(0);
});

test("missing and refused options of the role give one line each", () => {
  const resolved = (line: string) => {
    const resolved = resolveServeConfig(line.split(" "), {}, () => "");
    return "error" in resolved ? resolved.error : resolved;
  };
  expect(resolved("--return-perf-metrics")).toBe("--return-perf-metrics: needs --role trtllm-serve");
  expect(resolved("--role trtllm-serve --workers 2")).toBe(
    "--workers: must be 1 with --role trtllm-serve, which has one process",
  );
  expect(resolved("--role trtllm-serve --max-num-seqs 5")).toContain("--max-batch-size");
  expect(resolved("--role trtllm-serve --metrics-port 9")).toContain("--metrics-port: only for Triton's metrics");
  expect(resolved("--role trtllm-serve --http2-port 0")).toContain("--http2-port: only for --role vllm");
  expect(resolved("--role trtllm-serve --max_batch_size 7 --max_seq_len 512 --max_num_tokens 256")).toMatchObject({
    config: {
      engine: {
        ...{ maxNumSeqs: 7, maxModelLen: 512, maxNumBatchedTokens: 256, blockSize: 32, enableChunkedPrefill: false },
        trtllm: { capacitySchedulerPolicy: "GUARANTEED_NO_EVICT", maxInputLen: 256 },
      },
    },
  });
});

test("the role's own options are read, those without an effect are ignored, and unsupported ones are refused", () => {
  const resolve = (line: string, file = "") => resolveServeConfig(line.split(" "), {}, () => file);
  const flags =
    "m --role trtllm-serve --backend pytorch --tp_size 1 --pp_size 2 --ep_size 2 --cp_size 1 --cluster_size 1";
  const more =
    "--max_beam_width 1 --custom_module_dirs a --custom_module_dirs b --trust_remote_code --enable_attention_dp";
  const parsers = "--tool_parser qwen3 --reasoning_parser deepseek-r1";
  expect(resolve(`${flags} ${more} --num_postprocess_workers 4 --hf_revision x ${parsers}`)).toMatchObject({
    config: {
      models: { model: "m" },
      text: { toolCallParser: "hermes", reasoningParser: "deepseek_r1" },
      openai: { answers: { autoToolChoice: true } },
    },
    ignored: [
      ...["--backend", "--pipeline-parallel-size", "--moe-expert-parallel-size", "--context-parallel-size"],
      ...["--moe-cluster-parallel-size", "--max-beam-width", "--custom-module-dirs", "--trust-remote-code"],
      ...["--enable-attention-dp", "--num-postprocess-workers", "--revision"],
    ],
  });
  const resolved = (line: string, file?: string) => {
    const resolved = resolve(line, file);
    return "error" in resolved ? resolved.error : resolved;
  };
  expect(resolved("--backend pytorch")).toBe("--backend: needs --role trtllm-serve");
  for (const flag of ["--pp-size", "--hf-revision", "--ep-size", "--attn-backend"])
    expect(resolved(`m ${flag} 2`)).toBe(`${flag}: needs --role trtllm-serve`);
  expect(resolved("m --backen 2 --ep_size 2")).toStartWith("--backen: unknown flag;");
  expect(
    resolved("m --tp_size 1 --free_gpu_memory_fraction 0.5 --capacity-scheduler-policy MAX_UTILIZATION"),
  ).toMatchObject({
    config: { models: { model: "m" } },
  });
  expect(resolved("m --config f.yaml", "pp_size: 2\n")).toBe("f.yaml:1: pp_size: needs --role trtllm-serve");
  expect(resolved("--tool-call-parser qwen3")).toMatch(
    /^--tool-call-parser: takes apertus, beam, .* or xlam, not "qwen3"$/,
  );
  expect(resolved("--role trtllm-serve --tool_parser nope")).toStartWith(
    "--tool_parser: takes deepseek_v3, deepseek_v31, ",
  );
  expect(resolved("--role trtllm-serve --frobnicate")).toContain("trtllm-serve does not have it either");
  expect(resolved("--role trtllm-serve --server_role CONTEXT")).toBe(
    "--server_role: disaggregated serving is not built",
  );
  const file = "cuda_graph_config:\n  enable_padding: true\nspeculative_config:\n  decoding_type: Eagle\n";
  const extra = "--role trtllm-serve --extra_llm_api_options extra.yaml";
  expect(resolved(extra, file)).toMatchObject({ ignored: ["--cuda-graph-config", "--speculative-config"] });
  const devices = ["peft_cache_config", "sparse_attention_config", "force_dynamic_quantization", "enable_min_latency"];
  const others = ["batch_wait_timeout_ms", "batch_wait_timeout_iters", "kv_connector_config", "orchestrator_type"];
  const rest = ["env_overrides", "postprocess_tokenizer_dir", "attention_dp_enable_balance", "max_stats_len"];
  for (const key of [...devices, ...others, ...rest, "disable_mm_encoder"])
    expect(resolved(extra, `${key}: 1\n`)).toMatchObject({ ignored: [`--${key.replaceAll("_", "-")}`] });
  expect(resolved(extra, "cache_transceiver_config: {backend: UCX}\n")).toBe(
    "extra.yaml:1: cache_transceiver_config: disaggregated serving is not built",
  );
  expect(resolved(extra, "host_pool: 1\n")).toContain(
    "extra.yaml:1: host_pool: unknown key; trtllm-serve does not have it either",
  );
  const blocks = (dtype: string) => {
    const made = resolve(`${extra} --max-seq-len 4096`, `kv_cache_config: {dtype: ${dtype}}\n`);
    return "config" in made ? made.config.engine.numGpuBlocks - 1 : made;
  };
  expect(blocks("fp8")).toBeGreaterThan(1.9 * (blocks("auto") as number));
});

test("a disconnect is noticed at the next whole second of its request", async () => {
  const slow = await start("--timing constant:ttft=10ms,itl=20ms --return-perf-metrics");
  const gone = new AbortController();
  const body = JSON.stringify({ model: "m", prompt: "x", stream: true, ignore_eos: true });
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", body, headers, signal: gone.signal };
  const response = await fetch(`${slow.url}/v1/completions`, init);
  await response.body!.getReader().read();
  gone.abort();
  await Bun.sleep(200);
  expect(slow.engines.live).toBe(1);
  await eventually(() => slow.engines.live === 0);
  await eventually(async () =>
    (await (await fetch(`${slow.url}/prometheus/metrics`)).text()).includes('finished_reason="cancelled"'),
  );
  await slow.close(0);
});

test("/steady_clock_offset returns two times a fifth of a second apart, and requires an offset when it is set", async () => {
  const { receive_ts, transmit_ts } = await json(get("/steady_clock_offset"));
  expect(transmit_ts - receive_ts).toBeGreaterThanOrEqual(0.2);
  expect((await post("/steady_clock_offset", { offset: 1.5 })).status).toBe(200);
  expect((await json(post("/steady_clock_offset", {}))).error).toContain("('body', 'offset')");
});

test("/v1/kv_cache_hints accepts only truncate, and changes of memory and weights are reported as done", async () => {
  expect((await post("/v1/kv_cache_hints", { action: "truncate", messages: MESSAGES })).status).toBe(200);
  expect(await json(post("/v1/kv_cache_hints", { action: "grow" }))).toMatchObject({
    message: "Invalid action: grow",
    type: "InvalidRequestError",
  });
  for (const path of ["/release_memory", "/resume_memory", "/update_weights"])
    expect((await post(path, { tags: ["kv_cache"] })).status).toBe(200);
});

test("a model directory is named by its last part", async () => {
  const resolved = resolveServeConfig(["/models/tiny-llama/", "--role", "trtllm-serve", "--port", "0"], {}, () => "");
  if (!("config" in resolved)) throw new Error("no configuration");
  const named = await createRenewableApp(resolved.config, { log: () => {} });
  expect((await json(fetch(`${named.url}/v1/models`))).data[0].id).toBe("tiny-llama");
  await named.close(0);
});

test("a file in trtllm-serve's format is accepted: sections are options, and an unknown key is reported with its line", () => {
  const read = (file: string) =>
    resolveServeConfig("--role trtllm-serve --extra_llm_api_options extra.yaml --tp_size 1".split(" "), {}, () => file);
  const file = `enable_iter_perf_stats: true
return_perf_metrics: true
kv_cache_config:
  free_gpu_memory_fraction: 0.5
  enable_block_reuse: false
  event_buffer_max_size: 16
scheduler_config:
  capacity_scheduler_policy: MAX_UTILIZATION
max_seq_len: 4096
`;
  expect(read(file)).toMatchObject({
    config: {
      engine: {
        ...{ enablePrefixCaching: false, maxModelLen: 4096 },
        trtllm: { capacitySchedulerPolicy: "MAX_UTILIZATION" },
      },
      iterations: { enableIterPerfStats: true, returnPerfMetrics: true, eventBufferMaxSize: 16 },
    },
  });
  const wrong = read("kv_cache_config:\n  tokens: 3\n");
  expect("error" in wrong && wrong.error).toStartWith("extra.yaml:2: tokens: unknown key");
  for (const key of ["constructor: 1", "toString: {a: 1}", "kv_cache_config: {constructor: 1}"]) {
    const odd = read(`port: 1\n${key}\n`);
    expect("error" in odd && odd.error).toMatch(/^extra\.yaml:2: (constructor|toString): unknown key; /);
  }
  const parser = read("tool_parser: constructor\n");
  expect("error" in parser && parser.error).toContain('not "constructor"');
});

test("a role that only the file sets decides which keys are read, at any place in the file", () => {
  const read = (file: string, line = "m --config f.yaml") => resolveServeConfig(line.split(" "), {}, () => file);
  expect(read("pp_size: 2\nrole: trtllm-serve\n")).toMatchObject({ ignored: ["--pipeline-parallel-size"] });
  const resolved = (file: string, line?: string) => {
    const resolved = read(file, line);
    return "error" in resolved ? resolved.error : resolved;
  };
  expect(resolved("role: trtllm-serve\nbogus_key: 1\n")).toContain("trtllm-serve does not have it either");
  expect(resolved("role: trtllm-serve\npp_size: 2\n", "m --config f.yaml --role vllm")).toBe(
    "f.yaml:2: pp_size: needs --role trtllm-serve",
  );
});

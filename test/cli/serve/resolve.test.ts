/** Tests the configuration that `understudy serve` derives from its command line, the environment and a file. */
import { expect, test } from "bun:test";
import { ignoredOptions, shortFlags } from "../../../src/cli/options/ignored-flags.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { presetNames } from "../../../src/engine/timing/presets.ts";
import { DEFAULT_TRITON_METRICS } from "../../metrics/snapshots.ts";

type Env = Record<string, string>;

/** Resolves a command line. If `yaml` is set, it is the content of the only file, serve.yaml. */
function resolve(line: string, env: Env = {}, yaml?: string) {
  return resolveServeConfig(line.split(" ").filter(Boolean), env, (path) => {
    if (path === "serve.yaml" && yaml !== undefined) return yaml;
    throw Object.assign(new Error("no such file"), { code: "ENOENT" });
  });
}

function accepted(line: string, env: Env = {}, yaml?: string) {
  const resolved = resolve(line, env, yaml);
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved;
}

function refused(line: string, env: Env = {}, yaml?: string): string {
  const resolved = resolve(line, env, yaml);
  if (!("error" in resolved)) throw new Error(`accepted: ${line}`);
  expect(resolved.error).not.toContain("\n");
  return resolved.error;
}

const engine = (line: string, env?: Env, yaml?: string): EngineConfig => accepted(line, env, yaml).config.engine;

test("defaults are those of vLLM 0.33 on the default preset", () => {
  const { config, ignored, notices } = accepted("");
  expect([ignored, notices]).toEqual([[], []]);
  const { engine, ...server } = config;
  expect(server).toEqual({
    role: "vllm",
    seed: null,
    dataParallelSize: 1,
    workers: 1,
    models: {
      model: "meta-llama/Llama-3.1-8B-Instruct",
      servedModelNames: ["meta-llama/Llama-3.1-8B-Instruct"],
      loraModules: [],
    },
    listen: { host: "127.0.0.1", port: 8000, maxBodyBytes: 67108864 },
    openai: {
      front: { apiKeys: [], enableRequestIdHeaders: false, disableFastapiDocs: false, devMode: false },
      answers: { streamInterval: 1, enablePromptTokensDetails: false, enableForceIncludeUsage: false },
      requests: { maxLogprobs: 20 },
    },
    shutdownTimeoutS: 0,
    logs: { disableAccessLog: false, disableWarnings: false, disableLogStats: false, enableLogRequests: false },
    metrics: { role: "vllm", profile: 33, showHidden: false, bugs: [], triton: DEFAULT_TRITON_METRICS },
    truth: { log: null, requests: 1000, keepBodies: false },
    text: { outputTokens: { kind: "lognormal", meanTokens: 128, sigma: 0.7 } },
    deployment: { preset: "llama-3.1-8b-bf16-h100-tp1-vllm", gpuMemoryUtilization: 0.92, numGpuBlocksOverride: null },
    faults: {},
    queue: {},
  });
  const { timing, ...rest } = engine;
  expect(timing).toMatchObject({ kind: "table", name: "llama-3.1-8b-bf16-h100-tp1-vllm" });
  expect(rest).toEqual({
    maxModelLen: 131072,
    maxNumSeqs: 1024,
    maxNumActiveSeqs: 1024,
    maxNumBatchedTokens: 8192,
    maxNumScheduledTokens: 8192,
    blockSize: 16,
    numGpuBlocks: 29205,
    enablePrefixCaching: true,
    enableChunkedPrefill: true,
    asyncScheduling: true,
    schedulingPolicy: "fcfs",
    vllm: {
      longPrefillTokenThreshold: 0,
      longPrefillTokenThresholdAdaptive: false,
      prefillScheduleInterval: 1,
      schedulerReserveFullIsl: true,
      watermark: 0,
    },
    maxLoras: 0,
    seed: 0,
  });
});

test.each([
  ["llama-3.1-8b-bf16-h100-tp1-vllm", 8192, 1024, 131072],
  ["llama-3.1-8b-fp8-h200-tp1-vllm", 8192, 1024, 131072],
  ["llama-3.1-8b-fp8-h200-tp1-dynamo-profile", 8192, 1024, 131072],
  ["llama-3.1-70b-fp8-b200-tp2-vllm", 16384, 1024, 131072],
  ["llama-3.1-8b-bf16-a100-tp1-vllm", 2048, 256, 131072],
  ["llama-3.1-8b-fp8-l40s-tp1-vllm", 2048, 256, 131072],
  ["qwen3-32b-bf16-h100-tp2-vllm", 8192, 1024, 40960],
  ["qwen3-30b-a3b-bf16-h100-tp1-vllm", 8192, 1024, 40960],
  ["gpt-oss-120b-mxfp4-h100-tp2-vllm", 8192, 1024, 131072],
])("--timing %s sets the defaults of its GPU and model", (preset, batched, seqs, length) => {
  const { config } = accepted(`--timing ${preset}`);
  const { maxNumBatchedTokens, maxNumSeqs, maxModelLen } = config.engine;
  expect([maxNumBatchedTokens, maxNumSeqs, maxModelLen, config.deployment.preset]).toEqual([
    batched,
    seqs,
    length,
    preset,
  ]);
});

test("every preset starts with its own defaults", () => {
  for (const preset of presetNames) expect(accepted(`--timing ${preset}`).notices).toEqual([]);
});

test("the size of the KV pool follows from the share of the memory", () => {
  const h100 = (share: number) => Math.floor(((share - 0.02) * 85899345920 - 16060000000) / 131072 / 16);
  expect(engine("--gpu-memory-utilization 0.92").numGpuBlocks).toBe(h100(0.92));
  expect(engine("--gpu-memory-utilization 0.6").numGpuBlocks).toBe(h100(0.6));
  expect(engine("--block-size 32").numGpuBlocks).toBe(Math.floor(467295 / 32));
  expect(engine("--gpu-memory-utilization 0.5 --num-gpu-blocks-override 9000").numGpuBlocks).toBe(9000);
  expect(refused("--gpu-memory-utilization 0.1")).toContain("the KV pool has 0.");
});

test("some defaults depend on other options", () => {
  expect(engine("--max-num-seqs 4 --max-model-len 100").maxNumBatchedTokens).toBe(400);
  expect(engine("--max-num-batched-tokens 64").maxNumSeqs).toBe(64);
  expect(engine("--no-enable-chunked-prefill").maxNumBatchedTokens).toBe(131072);
  expect(engine("--max-num-seqs 7").maxNumActiveSeqs).toBe(7);
  expect(engine("--max-num-batched-tokens 2k").maxNumScheduledTokens).toBe(2000);
  expect(engine("--max-model-len auto --num-gpu-blocks-override 101").maxModelLen).toBe(1600);
  expect(engine("--max-model-len auto").maxModelLen).toBe(131072);
  expect(accepted("--timing none").config.deployment.preset).toBe("llama-3.1-8b-bf16-h100-tp1-vllm");
  expect(accepted("org/m").config.models.servedModelNames).toEqual(["org/m"]);
});

test.each<[string, object]>([
  ["org/model", { models: { model: "org/model" } }],
  ["--port 1 org/model", { models: { model: "org/model" }, listen: { port: 1 } }],
  ["--model=org/model", { models: { model: "org/model" } }],
  ["m --served-model-name a b --port 0", { models: { servedModelNames: ["a", "b"] }, listen: { port: 0 } }],
  ["--served_model_name=a --served-model-name b", { models: { servedModelNames: ["a", "b"] } }],
  ["--api-key k1 k2 --api-key k3", { openai: { front: { apiKeys: ["k1", "k2", "k3"] } } }],
  ["--port 1 --port=2", { listen: { port: 2 } }],
  ["--max-logprobs -1", { openai: { requests: { maxLogprobs: -1 } } }],
  [
    "--enable_request_id_headers --no-enable-request-id-headers",
    { openai: { front: { enableRequestIdHeaders: false } } },
  ],
  ["--enable-uvicorn-access-log", { logs: { disableAccessLog: false } }],
  ["--disable-uvicorn-access-log --disable-log-stats", { logs: { disableAccessLog: true, disableLogStats: true } }],
  ["--max-body-mb 0.5", { listen: { maxBodyBytes: 524288 } }],
  ["--device-memory-utilization 0.8", { deployment: { gpuMemoryUtilization: 0.8 } }],
  ["--host 0.0.0.0 -- org/model", { listen: { host: "0.0.0.0" }, models: { model: "org/model" } }],
])("flags set the configuration: %s", (line, expected) => {
  expect(accepted(line).config).toMatchObject(expected);
});

test.each<[string, object]>([
  ["--max-model-len 1k", { maxModelLen: 1000 }],
  ["--max-model-len 1K", { maxModelLen: 1024 }],
  ["--max-model-len 25.6k", { maxModelLen: 25600 }],
  ["--max-model-len -1 --num-gpu-blocks-override 11", { maxModelLen: 160 }],
  ["--disable-prefix-caching --disable-chunked-prefill", { enablePrefixCaching: false, enableChunkedPrefill: false }],
  ["--no_async_scheduling --scheduling-policy priority", { asyncScheduling: false, schedulingPolicy: "priority" }],
  ["--watermark .01 --prefill-schedule-interval 4", { vllm: { watermark: 0.01, prefillScheduleInterval: 4 } }],
  ["--no-scheduler-reserve-full-isl --seed 4294967295", { vllm: { schedulerReserveFullIsl: false }, seed: 4294967295 }],
  [
    "--long-prefill-token-threshold 64 --long-prefill-token-threshold-adaptive",
    { vllm: { longPrefillTokenThreshold: 64, longPrefillTokenThresholdAdaptive: true } },
  ],
])("flags set the engine's configuration: %s", (line, expected) => {
  expect(engine(line)).toMatchObject(expected);
});

test("flags of vllm serve without an effect here are accepted with their values and listed once", () => {
  const line =
    "m --dtype auto -pp 2 --quantization=fp8 --trust-remote-code --no-enable-log-outputs --port 9 --chat-template x.jinja" +
    ' --speculative-config {"a":1} --speculative-config.model x -cc.mode=3 -O3 --hf-token --lora-target-modules a=b c=d --dtype half' +
    " --cudagraph_capture_sizes 1 2 4 --headless";
  const { config, ignored } = accepted(line);
  expect([config.models.model, config.listen.port]).toEqual(["m", 9]);
  expect(ignored).toEqual([
    "--dtype",
    "--pipeline-parallel-size",
    "--quantization",
    "--trust-remote-code",
    "--enable-log-outputs",
    "--chat-template",
    "--speculative-config",
    "--compilation-config",
    "--optimization-level",
    "--hf-token",
    "--lora-target-modules",
    "--cudagraph-capture-sizes",
    "--headless",
  ]);
});

test("--data-parallel-size or -dp sets the number of engines", () => {
  const engines = (line: string) => accepted(line).config.dataParallelSize;
  expect([engines(""), engines("--data-parallel-size 4"), engines("-dp 2")]).toEqual([1, 4, 2]);
  expect(accepted("-dp 2 --data-parallel-address x").ignored).toEqual(["--data-parallel-address"]);
});

test("VLLM_SERVER_DEV_MODE is read like Python's int, as in vLLM", () => {
  const mode = (text: string) => accepted("", { VLLM_SERVER_DEV_MODE: text }).config.openai.front.devMode;
  expect(["0", "1", " 2 ", "-1", "00"].map(mode)).toEqual([false, true, true, true, false]);
  expect(refused("", { VLLM_SERVER_DEV_MODE: "true" })).toBe('VLLM_SERVER_DEV_MODE: takes 0 or 1, not "true"');
});

test("no option is in both tables, and every short flag stands for an option", () => {
  for (const name of Object.keys(ignoredOptions)) expect(serveOptions).not.toHaveProperty([name]);
  for (const name of Object.values(shortFlags)) expect({ ...ignoredOptions, ...serveOptions }).toHaveProperty([name]);
});

test.each([
  ["--max-num-sequ 4", "--max-num-sequ: unknown flag; did you mean --max-num-seqs"],
  ["--frobnicate", "--frobnicate: unknown flag; vllm serve 0.33 does not have it either"],
  ["-x", "-x: unknown flag"],
  ["--port.x 1", "--port.x: unknown flag"],
  ["--no-port", "--no-port: unknown flag"],
  ["--no-disable-log-stats", "--no-disable-log-stats: unknown flag"],
  ["--port", "--port: needs a value: a whole number from 0 to 65535"],
  ["--port --seed 1", "--port: needs a value"],
  ["--api-key", "--api-key: needs a value: one or more keys"],
  ["--port http", '--port: takes a whole number from 0 to 65535, not "http"'],
  ["--port 65536", 'not "65536"'],
  ["--max-num-seqs 0", "a whole number from 1 to 65536"],
  ["--max-model-len 1.5K", "8k (8000) or 8K (8192)"],
  ["--max-model-len 0", "or auto"],
  ["--watermark 1", "a number from 0 to below 1"],
  ["--gpu-memory-utilization 0", "a number above 0 to 1"],
  ["--scheduling-policy lifo", 'takes fcfs or priority, not "lifo"'],
  ["--enable-prefix-caching=false", "write --enable-prefix-caching or --no-enable-prefix-caching"],
  ["--disable-log-stats=1", "takes no value"],
  ["m extra", '"extra": unexpected'],
  ["m --model n", "the model is given twice"],
  ["--role tritium", '--role: takes vllm or triton or trtllm-serve or vllm-engine, not "tritium"'],
  ["--timing fast", '--timing: "fast": not a preset; must be none, constant:'],
  ["--timing constant:ttft=1,itl=1ms", '"1" is not a duration'],
  ["--config nowhere.yaml", '--config: cannot read "nowhere.yaml" (ENOENT)'],
])("refused: %s", (line, why) => {
  expect(refused(line)).toContain(why);
});

test.each([
  [
    "--max-num-batched-tokens 100 --max-num-seqs 200",
    "--max-num-batched-tokens is 100: it must be at least --max-num-seqs (200)",
  ],
  ["--no-enable-chunked-prefill --max-num-batched-tokens 4096", "at least the default max-model-len (131072)"],
  ["--max-num-seqs 4 --max-num-active-seqs 5", "--max-num-active-seqs is 5: it cannot be above --max-num-seqs (4)"],
  ["--max-num-scheduled-tokens 9000", "cannot be above the default max-num-batched-tokens (8192)"],
  ["--max-model-len 100 --long-prefill-token-threshold 101", "it cannot be above --max-model-len (100)"],
  [
    "--num-gpu-blocks-override 100",
    "needs 8192 KV blocks of 16 tokens, the KV pool has 99; the longest that fits is 1584",
  ],
  ["--max-model-len 1600 --num-gpu-blocks-override 100", "one request of --max-model-len (1600) needs 100"],
])("vLLM does not start with: %s", (line, why) => {
  expect(refused(line)).toContain(why);
});

test("one block of the pool is reserved, which counts at the limit", () => {
  expect(engine("--max-model-len 1600 --num-gpu-blocks-override 101").numGpuBlocks).toBe(101);
});

test("flags override the environment, which overrides the file, which overrides defaults", () => {
  const yaml = "max-num-seqs: 3\nport: 3\nseed: 3\n";
  const { config } = accepted("--config serve.yaml --port 1", { UNDERSTUDY_PORT: "2", UNDERSTUDY_SEED: "2" }, yaml);
  expect([config.listen.port, config.engine.seed, config.engine.maxNumSeqs, config.listen.host]).toEqual([
    1,
    2,
    3,
    "127.0.0.1",
  ]);
});

test("environment variables set names, lists and toggles, and errors name the variable", () => {
  const env = {
    UNDERSTUDY_SERVED_MODEL_NAME: "a,b",
    UNDERSTUDY_ENABLE_PREFIX_CACHING: "0",
    UNDERSTUDY_DISABLE_CHUNKED_PREFILL: "true",
    UNDERSTUDY_MODEL: "env/model",
    UNDERSTUDY_DTYPE: "half",
    UNDERSTUDY_CONFIG: "serve.yaml",
  };
  const { config, ignored } = accepted("", env, "seed: 5\n");
  expect([config.models.servedModelNames, config.models.model, ignored]).toEqual([
    ["a", "b"],
    "env/model",
    ["--dtype"],
  ]);
  expect(config.engine).toMatchObject({ enablePrefixCaching: false, enableChunkedPrefill: false, seed: 5 });
  expect(refused("", { UNDERSTUDY_PORT: "x" })).toBe('UNDERSTUDY_PORT: takes a whole number from 0 to 65535, not "x"');
  expect(refused("", { UNDERSTUDY_DISABLE_LOG_STATS: "maybe" })).toContain("takes true, false, 1 or 0");
  expect(refused("", { UNDERSTUDY_TIMING: "fast" })).toStartWith("UNDERSTUDY_TIMING:");
});

test("removed options are refused with the replacement", () => {
  expect(refused("--http-server bun")).toBe("--http-server: this flag was removed; there is only one HTTP server");
  expect(refused("--config serve.yaml", {}, "early_head: true\n")).toEndWith(
    "this key was removed; the headers of a stream are always sent at once",
  );
});

test("environment variables of others are ignored, and those that resemble ours get a notice", () => {
  const { config, notices } = accepted("", {
    UNDERSTUDY_PORT: "tcp://10.0.0.1:8000",
    UNDERSTUDY_SERVICE_HOST: "10.0.0.1",
    UNDERSTUDY_MAX_NUM_SEQ: "4",
    PORT: "4",
  });
  expect(config.listen.port).toBe(8000);
  expect(notices).toHaveLength(2);
  expect(notices.join()).toContain("Kubernetes");
  expect(notices.join()).toContain("did you mean UNDERSTUDY_MAX_NUM_SEQS?");
});

test("VLLM_API_KEY is used if no option sets a key", () => {
  const env = { VLLM_API_KEY: "a,b" };
  expect(accepted("", env).config.openai.front.apiKeys).toEqual(["a,b"]);
  expect(accepted("--api-key c", env).config.openai.front.apiKeys).toEqual(["c"]);
  expect(accepted("--config serve.yaml", env, "api-key: d").config.openai.front.apiKeys).toEqual(["d"]);
  expect(accepted("", { ...env, UNDERSTUDY_API_KEY: "e" }).config.openai.front.apiKeys).toEqual(["e"]);
});

test("a file has the flags' names as keys, and values in YAML", () => {
  const yaml = `
# a comment
model: org/model
served_model_name: [a, b]
max-model-len: 8K
gpu-memory-utilization: 0.8
no-enable-prefix-caching: true
async-scheduling: false
api-key: secret
speculative-config:
  model: draft
  num_speculative_tokens: 3
timing: constant:ttft=200ms,itl=20ms
`;
  const { config, ignored } = accepted("--config serve.yaml", {}, yaml);
  expect(config).toMatchObject({
    models: { model: "org/model", servedModelNames: ["a", "b"] },
    openai: { front: { apiKeys: ["secret"] } },
  });
  expect(config.engine).toMatchObject({ maxModelLen: 8192, enablePrefixCaching: false, asyncScheduling: false });
  expect(config.engine.timing).toEqual({ kind: "constant", ttftUs: 200_000, itlUs: 20_000 });
  expect(ignored).toEqual(["--speculative-config"]);
  expect(accepted("--config serve.yaml other/model", {}, yaml).config.models.model).toBe("other/model");
  expect(accepted("--config serve.yaml", {}, "").config.listen.port).toBe(8000);
});

test.each([
  ["port: 8000\nmax-num-seq: 4", "serve.yaml:2: max-num-seq: unknown key; did you mean max-num-seqs"],
  ["a:\n  b: 1", "serve.yaml:1: a: unknown key"],
  ["\n\nport: http", 'serve.yaml:3: port: takes a whole number from 0 to 65535, not "http"'],
  ["port: 1.0", 'port: takes a whole number from 0 to 65535, not "1.0"'],
  ["port:", "serve.yaml:1: port: takes a whole number"],
  ["port: [1, 2]", 'not "[1, 2]"'],
  ["enable-prefix-caching: yes", 'takes true or false, not "yes"'],
  ["served-model-name: {a: 1}", "takes one or more names"],
  ["port: 1\nport: 2", "serve.yaml:2: not YAML"],
  ["port: 1\n  seed: 2", "serve.yaml:1: not YAML"],
  ["- port", "takes a mapping of options"],
  ["config: other.yaml", "cannot name another one"],
  ["timing: fast", "serve.yaml:1: timing: "],
  [
    "max-num-seqs: 10\nmax-num-active-seqs: 11",
    "serve.yaml:2: max-num-active-seqs is 11: it cannot be above serve.yaml:1: max-num-seqs (10)",
  ],
])("the file is refused: %s", (yaml, why) => {
  expect(refused("--config serve.yaml", {}, yaml)).toContain(why);
});

test("combinations that vLLM warns about get a notice", () => {
  expect(accepted("--max-num-seqs 1 --max-model-len 100 --max-num-batched-tokens 200").notices.join()).toContain(
    "no step",
  );
  expect(accepted("--max-model-len 200000").notices.join()).toContain("VLLM_ALLOW_LONG_MAX_MODEL_LEN");
  expect(accepted("org/long --max-model-len 200000").notices).toEqual([]);
});

test("options that affect only one process are refused with several workers", () => {
  const several = "not possible with --workers 2";
  expect(refused("--admin-key k --workers 2")).toBe(`--admin-key: changes one process only; ${several}`);
  expect(refused("--keep-bodies --workers 2")).toBe(`--keep-bodies: keeps the bodies of one process only; ${several}`);
});

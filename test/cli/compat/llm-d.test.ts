/** Tests `serve --compat llm-d-inference-sim`, which maps the flags, environment and file of another stand-in to ours. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { KEYS } from "../../../src/cli/compat/llm-d-keys.ts";
import { durationUs } from "../../../src/cli/compat/llm-d-timing.ts";
import { lookup } from "../../../src/cli/options/lookup.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { stepUs } from "../../../src/engine/timing/timing.ts";

const COMPAT = ["--compat", "llm-d-inference-sim"];

function resolve(words: string, { env = {}, file = "" }: { env?: Record<string, string>; file?: string } = {}) {
  return resolveServeConfig([...COMPAT, ...words.split(" ").filter(Boolean)], env, () => file);
}

function accepted(words: string, from: { env?: Record<string, string>; file?: string } = {}) {
  const resolved = resolve(words, from);
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved;
}
const refused = (words: string, from: { env?: Record<string, string>; file?: string } = {}) => {
  const resolved = resolve(words, from);
  return "error" in resolved ? resolved.error : JSON.stringify(resolved);
};

test("the other stand-in's defaults apply", () => {
  const { config, notices } = accepted("--model m");
  expect(config).toMatchObject({
    listen: {
      host: "0.0.0.0",
      port: 8000,
      maxBodyBytes: 4 * 2 ** 20,
      frontLimits: { requests: 1005, overloadStatus: 429 },
    },
    models: { servedModelNames: ["m"], runtimeLora: true },
    logs: { disableAccessLog: true },
    engine: { maxNumSeqs: 5, maxModelLen: 1024, blockSize: 16, timing: { kind: "none" }, maxLoras: 1 },
    text: { toolCallParser: "hermes" },
    openai: { answers: { autoToolChoice: true } },
  });
  expect(notices).toEqual([]);
});

const DECODES = (decodes: number) => ({ promptTokens: 0, prefix: 0, pairs: 0, decodes, context: 0 });

test.each([
  ["--time-to-first-token 200ms --inter-token-latency 20ms", { kind: "constant", ttftUs: 200_000, itlUs: 20_000 }],
  ["--time-to-first-token 200 --inter-token-latency 20", { kind: "constant", ttftUs: 200_000, itlUs: 20_000 }],
  [
    "--prefill-overhead 100ms --prefill-time-per-token 1ms --inter-token-latency 20ms",
    { kind: "linear", baseUs: 20_000, prefillUs: 1000, decodeUs: 0, requestOverheadUs: 80_000 },
  ],
  // As in llm-d, a time to first token has priority over prefill times, unless the calculator is named.
  [
    "--time-to-first-token 1s --prefill-overhead 100ms --inter-token-latency 20ms",
    { kind: "constant", ttftUs: 1_000_000, itlUs: 20_000 },
  ],
  [
    "--latency-calculator per-token --time-to-first-token 1s --prefill-overhead 100ms --inter-token-latency 20ms",
    { kind: "linear", baseUs: 20_000, prefillUs: 0, decodeUs: 0, requestOverheadUs: 80_000 },
  ],
] as const)("latencies become a timing: %s", (words, timing) => {
  expect(accepted(words).config.engine.timing).toEqual(timing);
});

test("time-factor-under-load: a step of one sequence takes the latency, a full step the factor times as long", () => {
  const { config, notices } = accepted(
    "--time-to-first-token 100ms --inter-token-latency 20ms --time-factor-under-load 3 --max-num-seqs 9",
  );
  const { timing } = config.engine;
  expect([1, 5, 9].map((decodes) => stepUs(timing, DECODES(decodes)))).toEqual([20_000, 40_000, 60_000]);
  expect(notices).toHaveLength(1);
});

test("a deviation becomes jitter of the same size, at most 30 %", () => {
  const { config } = accepted("--time-to-first-token 1s --inter-token-latency 20ms --inter-token-latency-std-dev 5ms");
  const sigma = config.engine.noise!.jitterSigma!;
  expect(Math.sqrt(Math.expm1(sigma * sigma))).toBeCloseTo(0.25, 5);
  expect(refused("--inter-token-latency 20ms --inter-token-latency-std-dev 7ms")).toBe(
    "--inter-token-latency-std-dev: takes at most 30 % of inter-token-latency, which is 20 ms",
  );
});

test("a deviation of the first token applies to the wait before the first step, with a notice", () => {
  const constant = "--time-to-first-token 120ms --inter-token-latency 20ms";
  const { config, notices } = accepted(`${constant} --time-to-first-token-std-dev 20ms`);
  expect(config.engine.noise).toEqual({ overheadSigma: 0.2 });
  expect(notices).toEqual([
    "--time-to-first-token-std-dev: varies only the wait before the first step; that step varies like all steps",
  ]);
  expect(refused(`${constant} --time-to-first-token-std-dev 37ms`)).toBe(
    "--time-to-first-token-std-dev: takes at most 30 % of time-to-first-token, which is 120 ms",
  );
  expect(refused("--time-to-first-token-std-dev 1ms")).toContain("which is 0 ms");
  const prefill = accepted("--prefill-overhead 60ms --inter-token-latency 20ms --prefill-time-std-dev 10ms");
  expect(prefill.config.engine.noise).toEqual({ overheadSigma: 0.25 });
  expect(prefill.notices).toHaveLength(1);
  const none = accepted("--prefill-time-per-token 1ms --inter-token-latency 20ms --prefill-time-std-dev 10ms");
  expect(none.config.engine.noise).toBeUndefined();
  expect(none.notices[0]).toContain("has no effect");
  // A key of the latency calculator that is not used.
  expect(accepted(`${constant} --prefill-time-std-dev 10ms`).config.engine.noise).toBeUndefined();
});

test("global-cache-hit-threshold only has an effect with a cache, and its default is 0", () => {
  const threshold = (words: string) => accepted(words).config.queue.cacheHitThreshold;
  expect(threshold("--enable-kvcache --global-cache-hit-threshold 0.5")).toBe(0.5);
  expect(threshold("--global-cache-hit-threshold 0.5")).toBe(0);
  expect(threshold("")).toBe(0);
  expect(refused("--global-cache-hit-threshold 1.1")).toBe(
    '--global-cache-hit-threshold: takes a number from 0 to 1, not "1.1"',
  );
});

test("the transfer of a prompt takes a fixed time or a time per token, minus the first step", () => {
  const transfer = (words: string) => accepted(words).config.queue.kvTransferTime;
  const nothing = { baseUs: 0, tokenUs: 0, deviationUs: 0, stepUs: 0 };
  expect(transfer("")).toEqual(nothing);
  const [latency, token] = ["--kv-cache-transfer-latency 100ms", "--kv-cache-transfer-time-per-token 50us"];
  const deviations = "--kv-cache-transfer-latency-std-dev 30ms --kv-cache-transfer-time-std-dev 40ms";
  const both = `${latency} ${token} ${deviations}`;
  const constant = { ...nothing, baseUs: 100_000, deviationUs: 30_000 };
  const each = { ...nothing, tokenUs: 50, deviationUs: 40_000 };
  expect(transfer(both)).toEqual(constant);
  expect(transfer(`${both} --latency-calculator per-token`)).toEqual(each);
  expect(transfer(`${both} --latency-calculator constant --inter-token-latency 7ms`)).toEqual({
    ...constant,
    stepUs: 7000,
  });
  expect(transfer(`${token} --time-to-first-token 1s`)).toEqual({ ...nothing, tokenUs: 50, stepUs: 1 });
  expect(accepted(`${both} --time-to-first-token 1s`).notices.join()).not.toContain("transfer");
  expect(refused(`${latency} --kv-cache-transfer-latency-std-dev 31ms`)).toBe(
    "--kv-cache-transfer-latency-std-dev: takes at most 30 % of kv-cache-transfer-latency, which is 100 ms",
  );
  expect(refused("--kv-cache-transfer-latency soon")).toContain("--kv-cache-transfer-latency: takes a duration");
});

test("flags override the environment, which overrides the file; lists and our own options are accepted", () => {
  const file = [
    "model: from-file",
    "port: 1",
    "max-num-seqs: 7",
    "served-model-name: [a, b]",
    "lora-modules:",
    `  - '{"name": "l", "path": "/p"}'`,
    "truth-log-files: 3",
  ].join("\n");
  const { config } = accepted("--config f.yaml --port 2 --stream-interval 4", { env: { SIM_MODEL: "env" }, file });
  expect(config).toMatchObject({
    models: { model: "env", servedModelNames: ["a", "b"], loraModules: [{ name: "l", path: "/p" }] },
    listen: { port: 2 },
    openai: { answers: { streamInterval: 4 } },
    engine: { maxNumSeqs: 7 },
  });
  expect(accepted("--model flag", { env: { SIM_MODEL: "env" } }).config.models.model).toBe("flag");
});

test("the size of the cache has an effect only if the cache is enabled, and one more block is added", () => {
  expect(accepted("--kv-cache-size 500 --enable-kvcache").config.engine.numGpuBlocks).toBe(501);
  expect(accepted("--enable-kvcache=true").config.engine.numGpuBlocks).toBe(1025);
  expect(accepted("--kv-cache-size 500").config.engine.numGpuBlocks).toBe(accepted("").config.engine.numGpuBlocks);
});

test("unsupported options get one notice with their place, and disabled ones get none", () => {
  const file = "render-url: http://127.0.0.1:1\nimage-emission-rate: 0\n";
  const { notices } = accepted("--config f.yaml --dataset-url http://127.0.0.1:1 --no-mm-encoder-only", {
    file,
  });
  expect(notices.map((line) => line.split(";")[0])).toEqual([
    "f.yaml:1: render-url: not supported",
    "--dataset-url: not supported",
  ]);
});

test("arguments of tool calls follow the other stand-in's defaults and options", () => {
  const habits = { integers: [0, 100], numbers: [0, 100], items: [1, 5], optional: 0.5, inner: 0.5, another: 0.45 };
  expect(accepted("").config.openai.answers).toMatchObject({ toolHabits: habits, toolCallShare: 0.45 });
  const words =
    "--min-tool-call-integer-param -5 --max-tool-call-number-param=0.5 --min-tool-call-array-param-length 0 --object-tool-call-not-required-field-probability 0 --tool-call-extra-call-probability 100";
  const { config, notices } = accepted(words);
  expect(config.openai.answers).toMatchObject({
    toolHabits: { ...habits, integers: [-5, 100], numbers: [0, 0.5], items: [0, 5], inner: 0, another: 1 },
    toolCallShare: 1,
  });
  expect(notices).toEqual([]);
});

test("options without an effect here get a notice", () => {
  expect(accepted("--force-dummy-tokenizer --zmq-max-connect-attempts 7 --self-signed-certs").notices).toEqual([
    "--force-dummy-tokenizer: tokens are those of the built-in vocabulary: other ids, and other counts",
    "--zmq-max-connect-attempts: connecting is tried again until it succeeds",
  ]);
  expect(accepted("--self-signed-certs").config.listen.tls).toBe("self-signed");
});

test("a pod's headers have the values of its environment", () => {
  expect(accepted("").config).not.toHaveProperty("podHeaders");
  expect(accepted("--port 81", { env: { POD_NAME: "a" } }).config.openai.front.podHeaders).toEqual({
    "x-inference-pod": "a",
    "x-inference-port": "81",
  });
  expect(accepted("", { env: { POD_NAMESPACE: "n" } }).config.openai.front.podHeaders).toEqual({
    "x-inference-namespace": "n",
  });
});

test("all ranks share one port, with a notice, and a single rank is one engine", () => {
  const several = accepted("--data-parallel-size 4 --max-num-seqs 2 --max-waiting-queue-length 3");
  expect(several.config).toMatchObject({ dataParallelSize: 4, listen: { frontLimits: { requests: 20 } } });
  expect(several.notices).toEqual([
    "--data-parallel-size: the 4 ranks share one port; the header X-data-parallel-rank chooses one",
  ]);
  const result = accepted("--data-parallel-size 4 --data-parallel-rank 3");
  expect(result.config.dataParallelSize).toBe(1);
  expect(result.notices).toEqual([]);
  expect(accepted("--data-parallel-size=2 --data-parallel-rank -1").config.dataParallelSize).toBe(2);
});

test("with several processes adapters cannot be loaded, and the environment variable that demands it is refused", () => {
  const { config, notices } = accepted("--workers 2");
  expect([config.workers, config.models.runtimeLora]).toEqual([2, undefined]);
  expect(notices).toEqual([
    "--workers 2: adapters cannot be loaded by request, because only one process would load them",
  ]);
  const loading = { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1" };
  expect(refused("--workers 2", { env: loading })).toContain("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1");
  expect(accepted("").config.models.runtimeLora).toBe(true);
  expect(accepted("", { env: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "0" } }).config.models.runtimeLora).toBeUndefined();
});

test("random failures are supported; an empty list of types means all types, and an empty list of names none", () => {
  const failing = "--failure-injection-rate 30 --failure-types rate_limit server_error --port 1";
  expect(accepted(failing).config.faults).toMatchObject({
    failureRate: 30,
    failureTypes: ["rate_limit", "server_error"],
    errorHeader: true,
  });
  const file = "failure-injection-rate: 5\nfailure-types: []\nserved-model-name: []\n";
  const { config } = accepted("--config f.yaml --model m", { file });
  expect(config.faults).toMatchObject({ failureRate: 5 });
  expect(config.faults).not.toHaveProperty("failureTypes");
  expect(config.models.servedModelNames).toEqual(["m"]);
});

test.each([
  [
    "--failure-types flood",
    '--failure-types: takes one or more of rate_limit, invalid_api_key, context_length, server_error, invalid_request, model_not_found, not "flood"',
  ],
  ["--failure-injection-rate 101", '--failure-injection-rate: takes a number from 0 to 100, not "101"'],
  [
    "--startup-duration soon",
    '--startup-duration: takes a duration such as 100ms or 1.5s, or milliseconds as a bare number, not "soon"',
  ],
  ["--data-parallel-rank x", '--data-parallel-rank: takes a whole number from -1, not "x"'],
  ["--data-parallel-size 300", '--data-parallel-size: takes a whole number from 1 to 256, not "300"'],
  [
    "--min-tool-call-integer-param 200",
    '--min-tool-call-integer-param: takes whole numbers, the least of them first, not "200 100"',
  ],
  [
    "--tool-call-extra-call-probability 101",
    '--tool-call-extra-call-probability: takes a number from 0 to 100, not "101"',
  ],
  ["--modell m", "--modell: unknown flag; did you mean --model? (understudy serve --help lists the options)"],
  ["--mode loud", '--mode: takes random or echo, not "loud"'],
  ["--max-num-seqs x", '--max-num-seqs: takes a whole number from 1 to 65536, not "x"'],
  ["--max-waiting-queue-length 0", '--max-waiting-queue-length: takes a whole number of at least 1, not "0"'],
  ["--latency-calculator slow", '--latency-calculator: takes constant or per-token, not "slow"'],
  ["--time-factor-under-load 0.5", '--time-factor-under-load: takes a number of at least 1, not "0.5"'],
  [
    "--inter-token-latency 2x",
    '--inter-token-latency: takes a duration such as 100ms or 1.5s, or milliseconds as a bare number, not "2x"',
  ],
  ["--enable-kvcache=maybe", '--enable-kvcache: takes true or false, not "maybe"'],
])("%s is refused", (words, why) => {
  expect(refused(words)).toBe(why);
});

test.each([
  [
    "modell: m",
    "f.yaml:1: modell: unknown key; did you mean model or mode? (understudy serve --help lists the options)",
  ],
  ["model: m\nport: [", "f.yaml:2"],
  ["model: m\nenable-kvcache: yes", 'f.yaml:2: enable-kvcache: takes true or false, not "yes"'],
])("a file with %j is refused", (file, why) => {
  expect(refused("--config f.yaml", { file })).toStartWith(why);
});

test("keys of the file may begin with no-", () => {
  const file =
    "model: m\nno-enable-prefix-caching: true\nno-async-scheduling: true\nno-enable-chunked-prefill: false\n";
  expect(accepted("--config f.yaml", { file }).config.engine).toMatchObject({
    enablePrefixCaching: false,
    asyncScheduling: false,
    enableChunkedPrefill: true,
  });
  expect(accepted("--config f.yaml", { file: "model: m\nno-mm-encoder-only: true\n" }).notices).toEqual([]);
});

test("--compat accepts only one name, and is refused in a file", () => {
  const bare = (argv: readonly string[], file = "", env = {}) => resolveServeConfig(argv, env, () => file);
  expect(bare(["--compat"])).toEqual({ error: "--compat: needs a value: llm-d-inference-sim" });
  expect(bare(["--compat=vllm"])).toEqual({ error: '--compat: takes llm-d-inference-sim, not "vllm"' });
  expect(bare(["--config", "f.yaml"], "compat: llm-d-inference-sim")).toEqual({
    error: "f.yaml:1: compat: must be set by --compat or UNDERSTUDY_COMPAT, not in a file",
  });
  expect(bare(["--mode", "echo"], "", { UNDERSTUDY_COMPAT: "llm-d-inference-sim" })).toMatchObject({
    config: { text: { echo: true } },
  });
});

test("each key that maps to one of our options names an existing option", () => {
  const options = Object.values(KEYS).flatMap(({ fate }) => ("as" in fate ? [fate.as] : []));
  expect(options.filter((name) => lookup(name) === undefined)).toEqual([]);
  expect(options.length).toBeGreaterThan(15);
});

test("any flags give a configuration or an error of one line", () => {
  const word = fc.oneof(
    fc.constantFrom(...Object.keys(KEYS).map((name) => `--${name}`)),
    fc.constantFrom("1", "0", "100ms", "true", "x", "{}", "--no-enable-sleep-mode", "--seed=3"),
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (words) => {
      const resolved = resolveServeConfig([...COMPAT, ...words], {}, () => "");
      if ("error" in resolved) expect(resolved.error).not.toContain("\n");
      else expect("config" in resolved).toBe(true);
    }),
  );
});

test("fake metrics of a flag and of a file keep their interval", () => {
  const words = ["--fake-metrics", '{"running-requests": 3}', "--fake-metrics-refresh-interval", "1s"];
  const flags = resolveServeConfig([...COMPAT, "--model", "m", ...words], {}, () => "");
  const wanted = { gauges: { "vllm:num_requests_running": 3 }, refreshS: 1 };
  expect("config" in flags && flags.config.metrics.fakes).toMatchObject(wanted);
  const file = [
    "fake-metrics:",
    "  running-requests: 3",
    "  kv-cache-usage: ramp:0:1:10s",
    "  loras:",
    '    - \'{"running":"a","waiting":"","timestamp":5}\'',
    "fake-metrics-refresh-interval: 1s",
  ].join("\n");
  expect(accepted("--model m --config c.yaml", { file }).config.metrics.fakes).toMatchObject({
    ...wanted,
    loras: [{ running: "a", waiting: "", timestamp: 5 }],
  });
  expect(refused("--model m --fake-metrics no")).toBe(
    '--fake-metrics: takes a JSON object, as in {"running-requests": 16}',
  );
});

test("-v 4 enables the log of requests", () => {
  expect(accepted("--model m -v 4").config.logs.enableLogRequests).toBe(true);
  expect(accepted("--model m --v=3").config.logs.enableLogRequests).toBe(false);
});

test.each([
  ["100ms", 100_000],
  ["1.5s", 1_500_000],
  ["1m30s", 90_000_000],
  ["250", 250_000],
  ["1h", 3_600_000_000],
  ["0", 0],
  ["10", 10_000],
  ["1,5s", undefined],
  ["ms", undefined],
  ["5 ms", undefined],
])("the duration %j is parsed or refused", (text, us) => {
  expect(durationUs(text)).toBe(us as never);
});

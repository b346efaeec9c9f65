/** Tests that `replay --role triton` schedules as the models' configurations say, in simulated time, with repeatable results. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkScrapes } from "../../../../src/tools/check/index.ts";
import type { TritonResults } from "../../../../src/tools/replay/triton/results.ts";
import { main } from "../../../program.ts";

setDefaultTimeout(30_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-replay-triton-"));
afterAll(() => rmSync(folder, { recursive: true }));

const X = 'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }';
const taking = (text: string) => `parameters { key: "understudy_us" value { string_value: "${text}" } }`;
const CPU = (count: number) => `instance_group { count: ${count} kind: KIND_CPU }`;
const step = (model: string, from: string, to: string) =>
  `step { model_name: "${model}" model_version: -1 input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${to}" } }`;
const CONFIGS: Readonly<Record<string, string>> = {
  plain: `backend: "onnxruntime" ${X} ${CPU(1)} ${taking("base=1000")}`,
  three: `backend: "onnxruntime" ${X} ${CPU(3)} ${taking("base=1000")}`,
  batched: `backend: "onnxruntime" max_batch_size: 8 ${X} ${CPU(1)} ${taking("base=1000,per_item=100")} dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 5000 }`,
  short: `backend: "onnxruntime" max_batch_size: 1 ${X} ${CPU(1)} ${taking("base=1000")} dynamic_batching { default_queue_policy { max_queue_size: 2 } }`,
  both: `platform: "ensemble" ${X} ensemble_scheduling { ${step("plain", "x", "t")} ${step("three", "t", "y")} }`,
  sequence: `backend: "onnxruntime" max_batch_size: 4 ${X} ${CPU(1)} ${taking("base=1000")} sequence_batching { oldest { max_candidate_sequences: 4 } }`,
  coded: `backend: "python" ${X} ${CPU(1)}`,
  failing: `backend: "python" ${X} ${CPU(1)}`,
  warm: `backend: "onnxruntime" ${X} ${CPU(1)} ${taking("base=1000,first=20000")} model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }`,
  llm: `backend: "vllm"`,
};
for (const [name, config] of Object.entries(CONFIGS)) {
  mkdirSync(join(folder, "models", name, "1"), { recursive: true });
  writeFileSync(join(folder, "models", name, "config.pbtxt"), config);
}
const code = (name: string, body: string) => writeFileSync(join(folder, "models", name, "model.ts"), body);
code(
  "coded",
  `export default { async execute(requests, host) {
    await Bun.sleep(1);
    await host.sleep(3);
    return requests.map(({ inputs }) => ({ outputs: [{ name: "y", datatype: "FP32", shape: [4], data: inputs.get("x").data }] }));
  } };`,
);
writeFileSync(join(folder, "models", "failing", "behaviour.yaml"), "behaviour: fail");

const run = (...argv: string[]) => {
  const command = [process.execPath, main, "replay", ...argv, "--role", "triton"];
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: folder });
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
};
const models = (model: string) => ["--model", model, "--model-repository=models"];

function results(trace: string, model: string, ...more: string[]): TritonResults {
  const { exitCode, stderr } = run(trace, ...models(model), "--json", "r.json", "--metrics", "m.txt", ...more);
  expect([exitCode, stderr]).toEqual([0, ""]);
  return JSON.parse(readFileSync(join(folder, "r.json"), "utf8"));
}
const trace = (requests: number, pace: string) => `synthetic:isl=1,osl=1,requests=${requests},${pace}`;

test("a model instance executes one request at a time, and three instances execute three", () => {
  const result = results(trace(100, "concurrency=4"), "plain");
  expect([result.duration_s, result.latency_ms.p50, result.pending_peak, result.requests.finished]).toEqual([
    0.1, 4, 3, 100,
  ]);
  expect(result.models).toMatchObject([{ name: "plain", success: 100, executions: 100, batch: 1, compute_ms: 1 }]);
  const three = results(trace(100, "concurrency=4"), "three");
  expect([three.duration_s, three.pending_peak]).toEqual([0.034, 1]);
});

test("the dynamic batcher fills its batches, or waits for its longest delay", () => {
  const full = results(trace(160, "concurrency=16"), "batched");
  expect(full.models[0]).toMatchObject({ executions: 20, batch: 8 });
  expect(full.duration_s).toBe(20 * 0.0018);
  const alone = results(trace(10, "concurrency=1"), "batched");
  expect([alone.models[0]!.executions, alone.latency_ms.p50]).toEqual([10, 6.1]);
});

test("a full queue refuses requests at once, without counting a failure, as in Triton", () => {
  const { requests, models: counted } = results(trace(50, "concurrency=5"), "short");
  expect([requests.finished, counted[0]!.success, counted[0]!.failures]).toEqual([3, 3, {}]);
  expect(requests.failed).toEqual({ "[request id: <id_unknown>] Exceeds maximum queue size": 47 });
});

test("steps of an ensemble are counted separately, sequences run, and a model.ts may wait for real and simulated time", () => {
  const both = results(trace(30, "concurrency=3"), "both");
  expect(both.models.map(({ name, success }) => [name, success]).sort()).toEqual([
    ["both", 30],
    ["plain", 30],
    ["three", 30],
  ]);
  expect(both.latency_ms.p50).toBe(3);
  expect(results(trace(8, "concurrency=4"), "sequence").models[0]).toMatchObject({ success: 8, inferences: 8 });
  expect(results(trace(5, "concurrency=1"), "coded")).toMatchObject({ duration_s: 0.015, latency_ms: { p50: 3 } });
  const failed = results(trace(5, "concurrency=1"), "failing");
  expect([failed.requests.finished, failed.latency_ms.p50, Object.values(failed.requests.failed)]).toEqual([
    0,
    null,
    [5],
  ]);
});

test("equal seeds write equal bytes, --until ends the replay, and the page violates no law", () => {
  const open = trace(500, "rate=900");
  const bytes = () => ["r.json", "m.txt"].map((name) => readFileSync(join(folder, name), "utf8"));
  results(open, "plain", "--seed", "7");
  const first = bytes();
  results(open, "plain", "--seed", "7");
  expect(bytes()).toEqual(first);
  expect(first[1]).toContain('nv_inference_request_success{model="plain",version="1"} 500\n');
  expect(checkScrapes([first[1]!]).violated).toEqual([]);
  results(open, "plain", "--seed", "8");
  expect(bytes()).not.toEqual(first);
  const cut = results(open, "plain", "--until", "0.1", "--rate-scale", "2");
  expect(cut.requests.unfinished).toBe(cut.requests.arrived - cut.requests.finished);
  expect([cut.duration_s <= 0.1, cut.requests.arrived < 500, cut.requests.unfinished > 0]).toEqual([true, true, true]);
});

const ANY = trace(1, "concurrency=1");
test.each([
  [[ANY], "--model: is required"],
  [[ANY, ...models("nope")], "--model-repository: nope: failed to poll model 'nope': model not found"],
  [[ANY, ...models("llm")], "llm is a language model: replay without --role triton runs its engine"],
  [[ANY, ...models("plain"), "--html", "x"], "--html: not with --role triton, which accepts format, timestamp-unit"],
  [
    [ANY, ...models("plain"), "--load-model=three"],
    "--load-model=three: not possible here; the model of --model is loaded",
  ],
  [[ANY, ...models("plain"), "--cache-config"], "option '--cache-config' requires an argument"],
  [["absent.csv", ...models("plain")], "absent.csv"],
  [[ANY, "--model", "plain", "--model-repository=absent"], "failed to open directory"],
])("the command line is refused with one line: %p", (argv, message) => {
  const { exitCode, stderr } = run(...argv);
  expect([exitCode, stderr.split("\n").length]).toEqual([2, 2]);
  expect(stderr).toContain(message);
});

test("a warm-up takes no time of the replay, which ends at --until", () => {
  const cut = results(trace(50, "concurrency=1"), "warm", "--until", "0.0105");
  expect([cut.duration_s, cut.requests.finished, cut.models[0]!.success]).toEqual([0.0105, 10, 11]);
});

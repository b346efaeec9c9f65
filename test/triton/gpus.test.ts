/** Tests the GPU metrics of a Triton server: of the GPUs, and of the models with instances on them. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { GpuTime } from "../../src/servers/triton/devices/gpu-time.ts";
import { Gpus } from "../../src/servers/triton/devices/gpus.ts";
import { gpuFacts, gpuRows, pollGpus } from "../../src/servers/triton/metrics/gpus.ts";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";
import { pureServer } from "./pure-server.ts";

const GIB = 2 ** 30;
const base = mkdtempSync(join(tmpdir(), "triton-gpus-"));
const children: TritonHosted[] = [];
afterAll(async () => {
  await Promise.all(children.map((child) => child.stop(0)));
  rmSync(base, { recursive: true, force: true });
});

test("a GPU is busy while any batch runs on it, and a running batch counts up to now", () => {
  const gpus = new Gpus(new VirtualClock());
  gpus.addMissing([1, 0]);
  gpus.addMissing([0]);
  expect(gpus.all).toEqual([0, 1]);
  gpus.began(1, 100);
  gpus.began(1, 150);
  gpus.ended(1, 200);
  expect(gpus.busyUs(1, 250)).toBe(150);
  gpus.ended(1, 300);
  gpus.began(1, 400);
  expect([gpus.busyUs(0, 450), gpus.busyUs(1, 450)]).toEqual([0, 250]);
});

test("jobs on a GPU share its time equally: their ends match a simulation in small steps", async () => {
  const jobs = [
    [0, 100],
    [20, 30],
    [20, 500],
    [30, 0],
    [400, 90],
    [2000, 50],
  ] as const;
  const clock = new VirtualClock();
  const time = new GpuTime(clock);
  const ends: number[] = [];
  for (const [at, [fromUs, us]] of jobs.entries())
    clock.at(fromUs * 1000, () => void time.compute(us * 1000).then(() => (ends[at] = clock.now() / 1000)));
  while (clock.next()) for (let turn = 0; turn < 3; turn++) await Promise.resolve();

  const left: number[] = jobs.map(([, ms]) => ms);
  const wanted: number[] = [];
  for (let step = 0; wanted.filter(Number.isFinite).length < jobs.length; step++) {
    const running = jobs.flatMap(([from], at) => (from <= step / 100 && wanted[at] === undefined ? [at] : []));
    for (const at of running) left[at]! -= 1 / 100 / running.length;
    for (const at of running) if (left[at]! <= 0) wanted[at] = step / 100;
  }
  for (const [at, end] of ends.entries()) expect(Math.abs(end - wanted[at]!)).toBeLessThan(1);
  // The first job is alone for 20 of its 100 ms, then one of two, one of three, one of two.
  expect(ends.map(Math.round)).toEqual([210, 110, 720, 30, 580, 2050]);
});

test("built-in compute times add up on one GPU, but not on two GPUs or on the processor", async () => {
  const folder = join(base, "shared-gpu");
  const on = { a: "KIND_GPU gpus: 0", b: "KIND_GPU gpus: 0", c: "KIND_GPU gpus: 1", d: "KIND_CPU", e: "KIND_CPU" };
  for (const [name, kind] of Object.entries(on)) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    const text = `platform: "tensorrt_plan" instance_group { kind: ${kind} }
      input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }
      parameters { key: "understudy_us" value { string_value: "base=10000" } }`;
    writeFileSync(join(folder, name, "config.pbtxt"), text);
  }
  const clock = new VirtualClock();
  const server = pureServer([`--model-repository=${folder}`], clock);
  const pass = async (until: () => boolean) => {
    for (; !until(); clock.next()) for (let turn = 0; turn < 3; turn++) await new Promise((done) => setImmediate(done));
  };
  let started = false;
  void server.start().then(() => (started = true));
  await pass(() => started);
  const x = { name: "x", datatype: "FP32" as const, shape: [1], data: new Uint8Array(4) };
  const fields = { id: "", inputs: [x], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const took = async (...names: readonly string[]) => {
    const fromUs = clock.now();
    const ends = new Map<string, number>();
    for (const name of names)
      server.infer(name, -1, fields, { respond: (_, final) => final && ends.set(name, (clock.now() - fromUs) / 1000) });
    await pass(() => ends.size === names.length);
    return names.map((name) => ends.get(name));
  };
  expect(await took("a")).toEqual([10]);
  expect(await took("a", "b")).toEqual([20, 20]);
  expect(await took("a", "c")).toEqual([10, 10]);
  expect(await took("d", "e", "a")).toEqual([10, 10, 10]);
});

test("a poll reports shares of the time since the last poll, and energy is watts times seconds", () => {
  const facts = gpuFacts("h100", 80 * GIB + 5);
  const first = pollGpus([{ gpu: 0, busyUs: 500_000, usedBytes: 3 * GIB + 1 }], [], facts, 0, 1_000_000);
  expect(first).toEqual([
    { gpu: 0, busyUs: 500_000, usedBytes: 3 * GIB, utilization: 0.5, powerW: 332.5, energyJ: 332.5 },
  ]);
  const uses = [0, 1].map((gpu) => ({ gpu, busyUs: 500_000, usedBytes: 0 }));
  const second = pollGpus(uses, first, facts, 1_000_000, 3_000_000);
  expect(second.map(({ utilization, energyJ }) => [utilization, energyJ])).toEqual([
    [0, 472.5],
    [0.25, 2 * 201.25],
  ]);
  // A GPU that was not polled is shown with 0, like all GPUs before the first poll.
  const rows = gpuRows([0, 2], second, facts).map(([name, , , values]) => [name, values.map(({ value }) => value)]);
  expect(Object.fromEntries(rows)).toEqual({
    nv_energy_consumption: [472.5, 0],
    nv_gpu_utilization: [0, 0],
    nv_gpu_memory_total_bytes: [80 * GIB, 0],
    nv_gpu_memory_used_bytes: [0, 0],
    nv_gpu_power_usage: [70, 0],
    nv_gpu_power_limit: [700, 0],
  });
});

const model = (more: string) => `platform: "tensorrt_plan" max_batch_size: 8 ${more}
  input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }
  parameters { key: "understudy_weights" value { string_value: "3GiB" } }`;
const MODELS = {
  card: model("instance_group { kind: KIND_GPU gpus: [ 0, 1 ] } response_cache { enable: true }"),
  processor: model("instance_group { kind: KIND_CPU }"),
};

async function served(...flags: string[]) {
  const repository = mkdtempSync(join(base, "models-"));
  for (const [name, text] of Object.entries(MODELS)) {
    mkdirSync(join(repository, name, "1"), { recursive: true });
    writeFileSync(join(repository, name, "config.pbtxt"), text);
  }
  const polls = ["--metrics-interval-ms=20", "--model-control-mode=explicit", "--load-model=*", "--load-time=0"];
  const child = await hostTriton([`--model-repository=${repository}`, ...polls, ...flags]);
  children.push(child);
  const post = async (path: string, body = "") => (await fetch(child.url + path, { method: "POST", body })).status;
  const ask = (name: string, datatype = "FP32", value = 1) =>
    post(
      `/v2/models/${name}/infer`,
      JSON.stringify({ inputs: [{ name: "x", shape: [2, 1], datatype, data: [value, 1] }] }),
    );
  /** Returns GPU number and value of each series of a family. */
  const series = async (name: string, of: string) => {
    const text = await (await fetch(`${child.metrics}/metrics`)).text();
    const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) && line.includes(of));
    return lines.map((line) => [/gpu_uuid="[^"]*(\d)"/.exec(line)?.[1] ?? "", Number(line.split(" ").at(-1))]);
  };
  return { post, ask, series };
}

test("a model on GPUs has a series per GPU and one for the rest; used memory is the weight of the models", async () => {
  const { post, ask, series } = await served(
    "--cache-config=local,size=100000",
    "--metrics-config=summary_latencies=true",
  );
  for (const value of [1, 2, 3, 3]) expect(await ask("card", "FP32", value)).toBe(200);
  expect(await ask("processor")).toBe(200);
  const sum = (values: (string | number | undefined)[][]) => values.reduce((all, [, value]) => all + Number(value), 0);
  const success = await series("nv_inference_request_success", "card");
  expect(success.map(([gpu]) => gpu).sort()).toEqual(["", "0", "1"]);
  // Answers from the cache are reported without an instance.
  expect([sum(success), success.find(([gpu]) => gpu === "")]).toEqual([4, ["", 1]]);
  expect(sum(await series("nv_inference_count", "card"))).toBe(6);
  expect(sum(await series("nv_inference_queue_summary_us_count", "card"))).toBe(4);
  expect(await series("nv_inference_request_success", "processor")).toEqual([["", 1]]);
  const used = () => series("nv_gpu_memory_used_bytes", "");
  await eventually(async () => sum(await used()) === 6 * GIB);
  expect((await used()).map(([gpu]) => gpu)).toEqual(["0", "1"]);
  await post("/v2/repository/models/card/unload");
  await eventually(async () => sum(await used()) === 0);
  expect((await series("nv_inference_request_failure", "card")).length).toBe(12);
});

test("--allow-gpu-metrics=false removes GPU metrics and the series per GPU", async () => {
  const { ask, series } = await served("--allow-gpu-metrics=false");
  expect(await ask("card")).toBe(200);
  expect(await series("nv_inference_request_success", "card")).toEqual([["", 1]]);
  expect(await series("nv_gpu_utilization", "")).toEqual([]);
});

test("an engine's memory has the same value in TensorRT-LLM's families", async () => {
  const child = await hostTriton(["--metrics-interval-ms=20"]);
  children.push(child);
  const ask = { method: "POST", body: JSON.stringify({ text_input: "Hello", max_tokens: 5 }) };
  expect((await fetch(`${child.url}/v2/models/ensemble/generate`, ask)).status).toBe(200);
  const of = async (series: string) => {
    const text = await (await fetch(`${child.metrics}/metrics`)).text();
    return Number(new RegExp(`^${series}[^ ]* (\\d+)$`, "m").exec(text)?.[1]);
  };
  await eventually(async () => (await of('nv_trt_llm_runtime_memory_metrics{memory_type="gpu"')) > 0);
  const ofEngine = await of('nv_trt_llm_runtime_memory_metrics{memory_type="gpu"');
  const used = await of("nv_gpu_memory_used_bytes");
  expect(ofEngine - used).toBeWithin(0, 2 ** 20);
  expect(await of("nv_gpu_memory_total_bytes")).toBeGreaterThan(used);
});

/** Who has how much of the GPUs' memory, which loads does that refuse, and how long do loads take? */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { presetWeightBytes } from "../../src/config/defaults.ts";
import { profiles } from "../../src/config/profiles/index.ts";
import { findPreset } from "../../src/config/timing/presets.ts";
import { VirtualClock } from "../../src/host/clock.ts";
import { tritonServerConfig } from "../../src/options/triton-server-config.ts";
import { sizeIn, sizeText } from "../../src/triton/config/sizes.ts";
import { NO_OVERRIDE } from "../../src/triton/models/repository.ts";
import { DeviceMemory, type MemoryHold } from "../../src/triton/server/device-memory.ts";
import { TritonServer } from "../../src/triton/server/server.ts";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";

const GIB = 2 ** 30;
const base = mkdtempSync(join(tmpdir(), "triton-memory-"));
const children: TritonHosted[] = [];
afterAll(async () => {
  await Promise.all(children.map((child) => child.stop(0)));
  rmSync(base, { recursive: true, force: true });
});

const held = (taken: MemoryHold | string): MemoryHold => {
  if (typeof taken === "string") throw new Error(taken);
  return taken;
};

const ENGINE = { weightBytes: 30 * GIB, kvBytes: 100 * GIB, gpus: 2 };

test("the ledger: each GPU by itself, the engine once, and what is given back is free again", () => {
  const memory = new DeviceMemory({ gpuBytes: 80 * GIB, engine: ENGINE, loadLimits: new Map() });
  const first = held(memory.takeEngine());
  expect([first.weightBytes, first.text]).toEqual([
    30 * GIB,
    ", weights of 15.00 GiB and KV blocks of 50.00 GiB on GPU 0, 1",
  ]);
  const second = held(memory.takeEngine());
  expect(second.weightBytes).toBe(0);
  const small = held(memory.take("small", 5 * GIB, [0]));
  expect(memory.take("large", 11 * GIB, [1, 0])).toBe(
    "out of memory on GPU 0: weights of 11.00 GiB do not fit into the 10.00 GiB that are free of 80.00 GiB " +
      "(taken: the engine's weights 15.00 GiB, its KV blocks 50.00 GiB, small 5.00 GiB)",
  );
  const large = held(memory.take("large", 11 * GIB, [1]));
  // A GPU that the engine does not have.
  held(memory.take("other", 80 * GIB, [2]));
  expect(memory.take("more", 1, [2])).toBe(
    "out of memory on GPU 2: weights of 1 B do not fit into the 0 B that are free of 80.00 GiB (taken: other 80.00 GiB)",
  );
  // Whoever is on the processor takes nothing.
  expect(held(memory.take("processor", 500 * GIB, [])).text).toBe("");
  first.give();
  first.give();
  expect(memory.take("late", 16 * GIB, [0])).toContain("its KV blocks 50.00 GiB");
  second.give();
  small.give();
  held(memory.take("late", 69 * GIB, [1]));
  large.give();
  expect(memory.takeEngine()).toBe(
    "out of memory on GPU 1: weights of 15.00 GiB and KV blocks of 50.00 GiB do not fit into the 11.00 GiB that are free of 80.00 GiB (taken: late 69.00 GiB)",
  );
});

test("the ledger: without a limit everything fits; sizes that read alike are said in bytes; many models are counted", () => {
  const endless = new DeviceMemory({ gpuBytes: null, engine: ENGINE, loadLimits: new Map() });
  held(endless.take("large", 10_000 * GIB, [0]));
  held(endless.takeEngine());
  const memory = new DeviceMemory({ gpuBytes: 8 * GIB, engine: ENGINE, loadLimits: new Map() });
  expect(memory.take("a", 8 * GIB + 1, [0])).toBe(
    "out of memory on GPU 0: weights of 8589934593 B do not fit into the 8589934592 B that are free of 8589934592 B",
  );
  for (let at = 1; at <= 12; at++) held(memory.take(`m${at}`, at * 2 ** 20, [0]));
  const why = memory.take("b", 8 * GIB, [0]);
  expect(why).toContain("(taken: m12 12.00 MiB, m11 11.00 MiB");
  expect(why).toContain("m5 5.00 MiB, 4 models more)");
});

test("sizes are read with their unit alone, and said in the largest one", () => {
  const read = ["80GiB", "24 GB", "1.5MiB", "0B", "7B", "80", "80G", "-1GiB", "2000TiB", "1e3MB", ""].map(sizeIn);
  expect(read).toEqual([80 * GIB, 24e9, 1.5 * 2 ** 20, 0, 7, ...new Array(6).fill(undefined)]);
  expect([1023, 1024, 1536 * 2 ** 10, 80 * GIB, 2 ** 40].map(sizeText)).toEqual([
    "1023 B",
    "1.00 KiB",
    "1.50 MiB",
    "80.00 GiB",
    "1.00 TiB",
  ]);
});

test("weights of presets: what their pools leave, which is that of the parameters", () => {
  // 8.03 and 70.55 billion parameters of 2 bytes.
  expect(presetWeightBytes(findPreset("llama-3.1-8b-bf16-h100-tp1-vllm")!) / 1e9).toBeCloseTo(16.06, 1);
  for (const profile of profiles) {
    const bytes = presetWeightBytes(profile);
    expect(bytes, profile.name).toBeGreaterThan(profile.precision === "bf16" ? 16e9 : 4e9);
    expect(bytes + profile.poolTokens * profile.kvBytesPerToken).toBeLessThan(profile.tp * profile.gpuMemoryBytes);
  }
});

test("--load-time and --device-memory", () => {
  const read = (...flags: string[]) => {
    const made = tritonServerConfig(flags, "shipped");
    return "error" in made ? made.error : made.config.tritonServer!;
  };
  expect(read()).toMatchObject({ loadTime: { baseS: 1.3, perGibS: 0 }, deviceBytes: null });
  expect(read("--load-time=0")).toMatchObject({ loadTime: { baseS: 0, perGibS: 0 } });
  expect(read("--load-time=base=2,per_gib=.4", "--device-memory=24GiB")).toMatchObject({
    loadTime: { baseS: 2, perGibS: 0.4 },
    deviceBytes: 24 * GIB,
  });
  for (const wrong of ["", "x", "-1", "3601", "per_gib=1", "base=1,per_gib=", "base=1,per_gib=4000", "1,per_gib=1"])
    expect(read(`--load-time=${wrong}`)).toBe(
      `--load-time: takes seconds from 0 to 3600, also as base=1.3,per_gib=0.4, not "${wrong}"`,
    );
  expect(
    read("--model-load-gpu-limit=0:.8", "--model-load-gpu-limit=1:1", "--model-load-gpu-limit=0:0.25"),
  ).toMatchObject({
    loadLimits: new Map([
      [0, 0.25],
      [1, 1],
    ]),
  });
  for (const wrong of ["0.8", "0:1.1", "-1:0.5", "0:", "x:1"])
    expect(read(`--model-load-gpu-limit=${wrong}`)).toBe(
      `--model-load-gpu-limit: takes a GPU and a share of its memory from 0 to 1, as 0:0.8, not "${wrong}"`,
    );
  for (const wrong of ["80", "0GiB", "much"])
    expect(read(`--device-memory=${wrong}`)).toBe(
      `--device-memory: takes a size with its unit, as 80GiB or 512MB, at most 1024TiB, not "${wrong}"`,
    );
});

const GPU = "instance_group { kind: KIND_GPU count: 3 }";
const model = (more: string) => `backend: "tensorrt" ${more}
  input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }`;
const weighs = (size: string) => `parameters { key: "understudy_weights" value { string_value: "${size}" } }`;

/** Texts by their path below the repository; numbers: files of so many bytes, none of which is written. */
function repository(files: Readonly<Record<string, string | number>>): string {
  const folder = mkdtempSync(join(base, "models-"));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), typeof content === "string" ? content : "");
    if (typeof content === "number") truncateSync(join(folder, path), content);
  }
  return folder;
}

/** A server on a clock of its own, whose GPUs have 20 GiB and whose engine needs 12. */
async function served(files: Readonly<Record<string, string | number>>, ...flags: string[]) {
  const read = tritonServerConfig([`--model-repository=${repository(files)}`, ...flags], "");
  if ("error" in read) throw new Error(read.error);
  const clock = new VirtualClock();
  const lines: string[] = [];
  const server = new TritonServer({
    config: read.config.tritonServer!,
    targets: [],
    clock,
    epochMs: () => 0,
    backends: ({ backend }) =>
      backend === "vllm" ? { behaviour: { execute: async () => [] }, from: "the engine", ofEngine: true } : undefined,
    memory: {
      gpuBytes: 20 * GIB,
      engine: { weightBytes: 4 * GIB, kvBytes: 8 * GIB, gpus: 1 },
      loadLimits: read.config.tritonServer!.loadLimits,
    },
    random: () => 0,
    log: (line) => lines.push(line),
  });
  const failures = await server.start();
  const reasons = () => Object.fromEntries(server.index(false).map(({ name, reason = "" }) => [name, reason]));
  /** Seconds that it took, or why it failed. */
  const load = async (name: string) => {
    const fromUs = clock.now();
    let done: number | string | undefined;
    void server.load(name, NO_OVERRIDE).then(
      () => (done = (clock.now() - fromUs) / 1e6),
      (error: Error) => (done = error.message),
    );
    for (let turns = 0; done === undefined && turns < 10_000; turns++) {
      await new Promise(setImmediate);
      if (done === undefined) clock.advanceTo(clock.now() + 10_000);
    }
    return done;
  };
  return { server, failures, lines, reasons, load };
}

test("at the start the engine comes first, whatever the order; who does not fit is not there, with the reason", async () => {
  const { server, failures, reasons, lines } = await served({
    "a/config.pbtxt": model(`${GPU} ${weighs("9GiB")}`),
    "a/1/none": "",
    "b/config.pbtxt": model(`${GPU} ${weighs("7GiB")}`),
    "b/1/none": "",
    "c/config.pbtxt": model(weighs("900GiB")),
    "c/1/none": "",
    "llm/config.pbtxt": 'backend: "vllm"',
    "llm/1/model.json": "{}",
    "llm2/config.pbtxt": 'backend: "vllm" instance_group { kind: KIND_MODEL }',
    "llm2/1/model.json": "{}",
  });
  const why =
    "Internal: out of memory on GPU 0: weights of 9.00 GiB do not fit into the 8.00 GiB that are free of 20.00 GiB " +
    "(taken: the engine's weights 4.00 GiB, its KV blocks 8.00 GiB)";
  expect(failures).toEqual([`a: version 1 is at UNAVAILABLE state: ${why};\n`]);
  expect(reasons()).toEqual({ a: why, b: "", c: "", llm: "", llm2: "" });
  expect(server.ready).toBe(false);
  expect(lines).toContain(
    "model b version 1: drawn tensors after 1000 us and 0 us per item, weights of 7.00 GiB on GPU 0",
  );
  expect(lines).toContain(
    "model c version 1: drawn tensors after 1000 us and 0 us per item, understudy_weights on no GPU, as no instance is of KIND_GPU",
  );
  expect(lines).toContain("model llm version 1: the engine, weights of 4.00 GiB and KV blocks of 8.00 GiB on GPU 0");
});

test("loads, unloads and loads again: by size, and only where there is room for both", async () => {
  const { server, load, reasons } = await served(
    {
      "a/config.pbtxt": model(GPU),
      // No weights are code, configuration and text.
      "a/1/model.py": 30 * GIB,
      "a/1/vocab.txt": 30 * GIB,
      "a/1/model.plan": 9 * GIB,
      "a/1/deep/part.bin": 2 * GIB,
      "b/config.pbtxt": model(`${GPU} ${weighs("3GiB")}`),
      "b/1/model.plan": 30 * GIB,
      "c/config.pbtxt": model("instance_group { kind: KIND_CPU } version_policy { all { } }"),
      "c/1/model.onnx": 40 * GIB,
      "c/2/model.onnx": 10 * GIB,
      "d/config.pbtxt": model(`${GPU} ${weighs("much")}`),
      "d/1/model.plan": 1,
      "llm/config.pbtxt": 'backend: "vllm"',
      "llm/1/model.json": "{}",
      "llm2/config.pbtxt": 'backend: "vllm"',
      "llm2/1/model.json": "{}",
    },
    "--model-control-mode=explicit",
    "--load-time=base=1,per_gib=0.5",
  );
  const refused = (what: string, free: string, taken: string) =>
    expect.stringContaining(`${what} do not fit into the ${free} that are free of 20.00 GiB (taken: ${taken})`);
  expect(await load("a")).toBeCloseTo(1 + 11 / 2, 1);
  expect(await load("llm")).toEqual(
    refused("weights of 4.00 GiB and KV blocks of 8.00 GiB", "9.00 GiB", "a 11.00 GiB"),
  );
  expect(server.ready).toBe(false);
  expect(reasons().llm).toContain("out of memory on GPU 0");
  expect(await load("b")).toBeCloseTo(1 + 3 / 2, 1);
  expect(await load("c")).toBeCloseTo(2 + 50 / 2, 1);
  expect(await load("d")).toBe(
    "load failed for model 'd': version 1 is at UNAVAILABLE state: Internal: parameter understudy_weights: a size with its unit, as 80GiB or 512MB, at most 1024TiB is accepted;\n",
  );
  server.unload("a", false);
  expect(await load("llm")).toBeCloseTo(1 + 4 / 2, 1);
  // The engine is there by now.
  expect(await load("llm2")).toBeCloseTo(1, 1);
  expect(await load("a")).toEqual(
    refused("weights of 11.00 GiB", "5.00 GiB", "the engine's weights 4.00 GiB, its KV blocks 8.00 GiB, b 3.00 GiB"),
  );
  server.unload("llm", false);
  expect(await load("a")).toEqual(expect.stringContaining("its KV blocks 8.00 GiB, b 3.00 GiB"));
  server.unload("llm2", false);
  expect(await load("a")).toBeCloseTo(1 + 11 / 2, 1);
});

test("--model-load-gpu-limit: a load that leaves more taken is rejected in Triton's words, and gives back what it took", async () => {
  const { load } = await served(
    {
      "a/config.pbtxt": model(`${GPU} ${weighs("5GiB")}`),
      "a/1/none": "",
      "b/config.pbtxt": model(`instance_group { kind: KIND_GPU gpus: [ 0, 1 ] count: 2 } ${weighs("6GiB")}`),
      "b/1/none": "",
      "c/config.pbtxt": model(`${GPU} ${weighs("5GiB")}`),
      "c/1/none": "",
      "d/config.pbtxt": model(`${GPU} ${weighs("1B")}`),
      "d/1/none": "",
    },
    "--model-control-mode=explicit",
    "--load-time=0",
    "--model-load-gpu-limit=0:0.5",
    "--model-load-gpu-limit",
    "3:1",
  );
  const rejected = (name: string, instance: string) =>
    `load failed for model '${name}': version 1 is at UNAVAILABLE state: Unavailable: can not create model '${instance}': memory limit set for GPU 0 has exceeded, model loading is rejected.;\n`;
  expect(await load("a")).toBe(0);
  expect(await load("b")).toBe(rejected("b", "b_0_1"));
  expect(await load("c")).toBe(0);
  expect(await load("d")).toBe(rejected("d", "d_0_2"));
});

test("a server: a load that does not fit says the sizes, and so does the index; after an unload it works", async () => {
  const folder = repository({
    "large/config.pbtxt": model(GPU),
    "large/1/model.plan": 15 * GIB,
    "ranker/config.pbtxt": model(`${GPU} ${weighs("6GiB")}`),
    "ranker/1/model.plan": "",
  });
  const child = await hostTriton([
    `--model-repository=${folder}`,
    "--model-control-mode=explicit",
    "--load-model=large",
    "--load-time=base=0,per_gib=0.1",
    "--device-memory=20GiB",
  ]);
  children.push(child);
  const { url } = child;
  const post = async (path: string) => {
    const answer = await fetch(`${url}/v2/repository/${path}`, { method: "POST" });
    return [answer.status, await answer.text()] as const;
  };
  const ready = async (path: string) => (await fetch(`${url}/v2/${path}/ready`)).status;
  expect(await ready("health")).toBe(200);
  const why =
    "out of memory on GPU 0: weights of 6.00 GiB do not fit into the 5.00 GiB that are free of 20.00 GiB (taken: large 15.00 GiB)";
  const [status, text] = await post("models/ranker/load");
  expect([status, JSON.parse(text)]).toEqual([
    400,
    { error: `load failed for model 'ranker': version 1 is at UNAVAILABLE state: Internal: ${why};\n` },
  ]);
  const [, index] = await post("index");
  expect(JSON.parse(index)).toEqual([
    { name: "large", version: "1", state: "READY" },
    { name: "ranker", version: "1", state: "UNAVAILABLE", reason: `Internal: ${why}` },
  ]);
  expect([await ready("health"), await ready("models/large"), await ready("models/ranker")]).toEqual([400, 200, 400]);
  expect((await post("models/large/unload"))[0]).toBe(200);
  const loading = post("models/ranker/load");
  await eventually(async () => (await post("index"))[1].includes('"LOADING"'));
  expect([await ready("health"), await ready("models/ranker")]).toEqual([400, 400]);
  expect((await loading)[0]).toBe(200);
  expect([await ready("health"), await ready("models/ranker")]).toEqual([200, 200]);
});

/** Tests loads of models: whether they fit the memory of the GPUs, the messages if they do not, and the time they take. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import type { LoadOverride } from "../../src/servers/triton/models/repository.ts";
import { NO_OVERRIDE } from "../../src/servers/triton/models/repository.ts";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";
import { pureServer } from "./pure-server.ts";

const GIB = 2 ** 30;
const base = mkdtempSync(join(tmpdir(), "triton-memory-"));
const children: TritonHosted[] = [];
afterAll(async () => {
  await Promise.all(children.map((child) => child.stop(0)));
  rmSync(base, { recursive: true, force: true });
});

const GPU = "instance_group { kind: KIND_GPU count: 3 }";
const model = (more: string) => `backend: "tensorrt" ${more}
  input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }`;
const weighs = (size: string) => `parameters { key: "understudy_weights" value { string_value: "${size}" } }`;

/** Creates a repository of text files by path. A number creates an empty file of that size, without writing its bytes. */
function repository(files: Readonly<Record<string, string | number>>): string {
  const folder = mkdtempSync(join(base, "models-"));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), typeof content === "string" ? content : "");
    if (typeof content === "number") truncateSync(join(folder, path), content);
  }
  return folder;
}

/** A server on its own virtual clock. Its GPUs have 20 GiB, and its engine needs 12. */
async function served(files: Readonly<Record<string, string | number>>, ...flags: string[]) {
  const clock = new VirtualClock();
  const lines: string[] = [];
  const server = pureServer([`--model-repository=${repository(files)}`, ...flags], clock, {
    backends: ({ backend }) =>
      backend === "vllm" ? { behaviour: { execute: async () => [] }, from: "the engine", ofEngine: true } : undefined,
    memory: {
      gpuBytes: 20 * GIB,
      engine: { weightBytes: 4 * GIB, kvBytes: 8 * GIB, gpus: 1 },
      loadLimits: new Map(),
    },
    log: (line) => lines.push(line),
  });
  const failures = await server.start();
  const states = () => Object.fromEntries(Array.from(server.index(false), ({ name, state }) => [name, state]));
  const reasons = () => Object.fromEntries(Array.from(server.index(false), ({ name, reason = "" }) => [name, reason]));
  /** Loads a model. Returns the seconds it took, or the error message. */
  const load = async (name: string, config: string | null = null, files: LoadOverride["files"] = new Map()) => {
    const fromUs = clock.now();
    let done: number | string | undefined;
    void server.load(name, { config, files }).then(
      () => (done = (clock.now() - fromUs) / 1e6),
      (error: Error) => (done = error.message),
    );
    for (let turns = 0; done === undefined && turns < 10_000; turns++) {
      await new Promise(setImmediate);
      if (done === undefined) clock.advanceTo(clock.now() + 10_000);
    }
    return done;
  };
  return { server, clock, failures, lines, reasons, states, load };
}

test("at the start the engine loads first; a model that does not fit is unavailable, with the reason", async () => {
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

test("loads, unloads and repeated loads depend on size, and need room for old and new versions", async () => {
  const { server, load, reasons } = await served(
    {
      "a/config.pbtxt": model(GPU),
      // Code, configuration and text do not count as weights.
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
  // The engine is already loaded.
  expect(await load("llm2")).toBeCloseTo(1, 1);
  expect(await load("a")).toEqual(
    refused("weights of 11.00 GiB", "5.00 GiB", "the engine's weights 4.00 GiB, its KV blocks 8.00 GiB, b 3.00 GiB"),
  );
  server.unload("llm", false);
  expect(await load("a")).toEqual(expect.stringContaining("its KV blocks 8.00 GiB, b 3.00 GiB"));
  server.unload("llm2", false);
  expect(await load("a")).toBeCloseTo(1 + 11 / 2, 1);
});

test("an unload takes time per instance: memory is free at once, the server is not ready, and the series stay", async () => {
  const { server, clock, load, states } = await served(
    {
      "a/config.pbtxt": model(`${GPU} ${weighs("20GiB")}`),
      "a/1/none": "",
      "b/config.pbtxt": model(weighs("20GiB")),
      "b/1/none": "",
    },
    "--model-control-mode=explicit",
    "--load-time=0",
    "--unload-time=0.5",
  );
  const series = () => server.counted.filter(({ served }) => served !== null).map(({ name }) => name);
  const after = async (s: number) => {
    for (const untilUs = clock.now() + s * 1e6; clock.now() < untilUs; ) {
      clock.advanceTo(Math.min(untilUs, clock.now() + 10_000));
      await new Promise(setImmediate);
    }
  };
  await load("a");
  server.unload("a", false);
  expect(states().a).toBe("UNLOADING");
  expect(() => server.find("a", -1)).toThrow("'a' has no available versions");
  await after(1.48);
  expect([states().a, server.ready, series()]).toEqual(["UNLOADING", false, ["a"]]);
  expect(await load("b")).toBe(0);
  await after(0.04);
  expect([states(), server.ready, series()]).toEqual([{ a: "UNAVAILABLE", b: "READY" }, true, ["b"]]);

  // A model that is loaded again during its unload is ready at once. Its next unload takes its full time again.
  server.unload("b", false);
  for (let again = 0; again < 2; again++) {
    expect(await load("a")).toBe(0);
    await after(0.2);
    expect([states().a, series().sort()]).toEqual(["READY", again === 0 ? ["a", "b"] : ["a"]]);
    server.unload("a", false);
    await after(0.7);
  }
  await after(0.7);
  expect([states().a, series()]).toEqual(["UNLOADING", ["a"]]);
  await after(0.2);
  expect([states().a, series()]).toEqual(["UNAVAILABLE", []]);
});

test("a model that is loaded again serves until the new one is ready, and needs room for both", async () => {
  const { server, load, lines } = await served(
    {
      "a/config.pbtxt": model(`${GPU} ${weighs("11GiB")}`),
      "a/1/none": "",
      "b/config.pbtxt": model(`${GPU} ${weighs("15GiB")}`),
      "b/1/none": "",
    },
    "--model-control-mode=explicit",
    "--load-time=1",
  );
  const tensor = (name: string) => ({ name, data_type: "TYPE_FP32", dims: [1] });
  const config = (size?: string) =>
    JSON.stringify({
      backend: "tensorrt",
      instance_group: [{ kind: "KIND_GPU" }],
      input: [tensor("x")],
      output: [tensor("y")],
      ...(size === undefined ? {} : { parameters: { understudy_weights: { string_value: size } } }),
    });
  await load("a");
  const first = server.find("a", 1);
  expect(await load("a", config("12GiB"))).toContain(
    "weights of 12.00 GiB do not fit into the 9.00 GiB that are free of 20.00 GiB (taken: a 11.00 GiB)",
  );
  expect(server.find("a", 1)).toBe(first);
  expect(await load("a", config("5GiB"))).toBeCloseTo(1, 1);
  expect(server.find("a", 1)).not.toBe(first);
  expect(await load("b")).toBeCloseTo(1, 1);
  server.unload("b", false);
  const brought = new Map(["1/model.plan", "1/model.py", "2/model.plan"].map((file) => [file, 2048]));
  expect(await load("c", config(), brought)).toBeCloseTo(1, 1);
  expect(lines.at(-1)).toStartWith("model c version 2: ");
  expect(lines.at(-1)).toEndWith(", weights of 2.00 KiB on GPU 0");
});

test("--model-load-gpu-limit: a load above the limit is rejected with Triton's message and returns its memory", async () => {
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

test("a live server: a load that does not fit reports the sizes, also in the index; after an unload it works", async () => {
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
    "--unload-time=0",
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

test("a model in two repositories makes the start fail; with namespacing its name is ambiguous", async () => {
  const one = repository({
    "m/1/model.plan": "",
    "m/config.pbtxt": model(""),
    "n/1/model.plan": "",
    "n/config.pbtxt": model(""),
  });
  const two = repository({ "m/1/model.plan": "", "m/config.pbtxt": model("") });
  const flags = [`--model-repository=${one}`, `--model-repository=${two}`];
  const listed = (server: ReturnType<typeof pureServer>, readyOnly = false) => [...server.index(readyOnly)];
  const plain = pureServer(flags, new VirtualClock());
  expect(await plain.start()).toEqual(["m: failed to poll model 'm': not unique across all model repositories"]);
  const m = { name: "m", state: "UNAVAILABLE" as const, reason: "model appears in two or more repositories" };
  const n = { name: "n", version: "1", state: "READY" as const };
  expect([listed(plain), listed(plain, true)]).toEqual([
    [m, n],
    [m, n],
  ]);
  expect(await pureServer([...flags, "--model-control-mode=explicit"], new VirtualClock()).start()).toEqual([]);
  const namespaced = pureServer([...flags, "--model-namespacing=true"], new VirtualClock());
  expect(await namespaced.start()).toEqual([]);
  expect(namespaced.find("n", -1).version).toBe(1);
  expect(() => namespaced.find("m", -1)).toThrow(
    "There are 2 identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity.",
  );
  expect([listed(namespaced), listed(namespaced, true)]).toEqual([
    one < two ? [{ name: "m" }, n, { name: "m" }] : [{ name: "m" }, { name: "m" }, n],
    [n],
  ]);

  // One copy is removed and the other loaded: the name is still ambiguous, but the model is ready.
  const explicit = [...flags, "--model-namespacing=true", "--model-control-mode=explicit", "--load-time=0"];
  const controlled = pureServer([...explicit, "--triton-version=2.73"], new VirtualClock());
  await controlled.start();
  rmSync(join(two, "m"), { recursive: true });
  await controlled.load("m", NO_OVERRIDE);
  expect(() => controlled.find("m", -1)).toThrow("There are 2 identifiers");
  expect([controlled.isReady("m", -1), controlled.isReady("m", 1), controlled.isReady("m", 2)]).toEqual([
    true,
    true,
    false,
  ]);

  const again = pureServer([...flags.slice(0, 1), ...flags.slice(0, 1)], new VirtualClock());
  expect([await again.start(), listed(again).length]).toEqual([[], 2]);
  expect(() => namespaced.statistics(null, -1)).toThrow(`Request for unknown model: '${one}::n' is not found`);
});

test("polling: a new model is LOADING for its time, a failed one is tried again at once; period 0 turns it off", async () => {
  const folder = repository({ "a/config.pbtxt": model(""), "a/1/none": "" });
  const flags = [`--model-repository=${folder}`, "--model-control-mode=poll", "--load-time=3"];
  const polled = async (...more: string[]) => {
    const clock = new VirtualClock();
    const server = pureServer([...flags, ...more], clock);
    await server.start();
    const states = () => [server.ready, ...Array.from(server.index(false), ({ name, state }) => `${name} ${state}`)];
    /** Returns the states after so many seconds. */
    const after = async (seconds: number) => {
      for (let left = seconds * 10; left > 0; left--) {
        clock.advanceBy(1e5);
        for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
      }
      return states();
    };
    return { states, after };
  };
  const { states, after } = await polled("--repository-poll-secs=10");
  const never = await polled("--repository-poll-secs=0");
  expect(states()).toEqual([true, "a READY"]);
  mkdirSync(join(folder, "b/1"), { recursive: true });
  writeFileSync(join(folder, "b/config.pbtxt"), model(""));
  expect(await after(11)).toEqual([false, "a READY", "b LOADING"]);
  expect(await after(3)).toEqual([true, "a READY", "b READY"]);
  writeFileSync(join(folder, "b/config.pbtxt"), model(weighs("much")));
  expect(await after(10)).toEqual([true, "a READY", "b READY"]);
  mkdirSync(join(folder, "c/1"), { recursive: true });
  writeFileSync(join(folder, "c/config.pbtxt"), model(""));
  writeFileSync(
    join(folder, "c/model.ts"),
    'export default { initialize() { throw new Error("no"); }, execute: () => [] };',
  );
  expect(await after(10)).toEqual([false, "a READY", "b READY", "c LOADING"]);
  await after(3);
  await eventually(() => states().at(-1) === "c UNAVAILABLE");
  expect(await after(11)).toEqual([false, "a READY", "b READY", "c UNAVAILABLE"]);
  expect((await never.after(30)).slice(0, 2)).toEqual([true, "a READY"]);
});

/**
 * Tests that large configurations and long lists are processed in slices, with the same results as small ones, while others are
 * served.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atOnce, type Pieces } from "../../src/base/pieces.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { tritonServerConfig } from "../../src/cli/options/triton-server-config.ts";
import { type HttpCall, LATER } from "../../src/servers/triton/http/call.ts";
import { jsonTexts, toldJson } from "../../src/servers/triton/http/long-json.ts";
import { TritonServer } from "../../src/servers/triton/inference/server.ts";
import { configFromJson, configTexts } from "../../src/servers/triton/model-config/config-json.ts";
import type { ModelConfig } from "../../src/servers/triton/model-config/model-config.ts";
import { normalized } from "../../src/servers/triton/model-config/normalize.ts";
import { pbtxtInPieces } from "../../src/servers/triton/model-config/pbtxt.ts";
import { ROOT } from "../../src/servers/triton/model-config/schema.ts";
import { signatureOf } from "../../src/servers/triton/model-config/signature.ts";
import { stepShapes } from "../../src/servers/triton/model-config/step-shapes.ts";
import { wrongConfig } from "../../src/servers/triton/model-config/validate.ts";
import { wrongSteps } from "../../src/servers/triton/model-config/validate-steps.ts";
import { wrongGroups, wrongTensors } from "../../src/servers/triton/model-config/validate-tensors.ts";
import { hostTriton, type TritonHosted } from "./child.ts";
import { TritonClient } from "./grpc-client.ts";

const COUNT = 20_000;
const listed = (one: (at: number) => string, count = COUNT) => Array.from({ length: count }, (_, at) => one(at));
const many = (...given: Parameters<typeof listed>) => listed(...given).join("\n");
const tensor = (name: string) => `{ name: "${name}" data_type: TYPE_INT32 dims: [ -1 ] }`;
const TENSORS = `input ${tensor("x")} output ${tensor("y")}`;
const parameters = (count?: number) => many((at) => `parameters { key: "k${at}" value { string_value: "v" } }`, count);

const base = mkdtempSync(join(tmpdir(), "triton-large-configs-"));
let child: TritonHosted;
let client: TritonClient;
function place(name: string, config: string): void {
  mkdirSync(join(base, name, "1"), { recursive: true });
  writeFileSync(join(base, name, "config.pbtxt"), config);
  writeFileSync(join(base, name, "behaviour.yaml"), "behaviour: identity");
}
const SMALL = 300;
const WORDS = 3 * COUNT;
beforeAll(async () => {
  place("plain", `backend: "python" ${TENSORS}`);
  place("wordy", `backend: "python" ${TENSORS} ${parameters(WORDS)}`);
  place("wide", `backend: "python" ${many((at) => `input ${tensor(`x${at}`)}`)} output ${tensor("y")}`);
  for (let at = 0; at < SMALL; at++) place(`m${at}`, `backend: "python" ${TENSORS}`);
  const load = ["plain", "wide"].map((name) => `--load-model=${name}`);
  child = await hostTriton([
    `--model-repository=${base}`,
    "--model-control-mode=explicit",
    "--load-time=0",
    "--device-memory=1MiB",
    ...load,
  ]);
  client = new TritonClient(child.grpc, undefined, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
});
afterAll(async () => {
  client.close();
  await child.stop(0);
  rmSync(base, { recursive: true, force: true });
});

/** Runs the work to its end. Returns the result and the number of yields. */
function counted<R>(work: Pieces<R>): { readonly result: R; readonly stops: number } {
  for (let stops = 0; ; stops++) {
    const { done, value } = work.next();
    if (done) return { result: value, stops };
  }
}

const model = (text: string): ModelConfig => atOnce(normalized(atOnce(pbtxtInPieces(text, ROOT, true)), "m", []));
const step = (at: number) =>
  `{ model_name: "s" input_map { key: "x" value: "t${at}" } output_map { key: "y" value: "t${at + 1}" } }`;
const CHAIN = 3000;

test.each<[string, string]>([
  ["parameters", parameters()],
  ["inputs", many((at) => `input ${tensor(`x${at}`)}`)],
  ["items of a list", `input [ ${listed((at) => tensor(`x${at}`)).join(",")} ]`],
  ["dimensions", `input { name: "x" data_type: TYPE_INT32 dims: [ ${listed((at) => `${at + 1}`).join(",")} ] }`],
  ["instance groups", many(() => "instance_group { kind: KIND_CPU }")],
  ["what is deep", `sequence_batching { ${many((at) => `control_input { name: "c${at}" }`)} }`],
])("%s: parsed, completed, checked, signed and printed in slices", (_, more) => {
  const text = `backend: "python" output ${tensor("y")} ${more}`;
  const read = counted(pbtxtInPieces(text, ROOT, true));
  expect(read.stops).toBeGreaterThan(COUNT / 100);
  const config = atOnce(normalized(read.result, "m", []));
  expect(counted(signatureOf(config)).stops).toBeGreaterThan(10);
  const texts = [...configTexts(config, true)];
  const printed = texts.join("");
  // Each text is one of many, whichever part of the configuration is long.
  for (const one of texts) expect(one.length).toBeLessThan(10_000);
  const again = counted(configFromJson(JSON.parse(printed), true));
  expect(again.stops).toBeGreaterThan(COUNT / 100);
  expect([...configTexts(again.result, true)].join("")).toBe(printed);
  if (/input \{ name: "x0"|instance_group|control_input|input \[/.test(more))
    expect(
      [wrongConfig(config), wrongGroups(config), wrongTensors(config), normalized(read.result, "m", [])]
        .map((work) => counted<unknown>(work).stops)
        .reduce((all, stops) => all + stops),
    ).toBeGreaterThan(COUNT / 100);
});

test("an ensemble of thousands of steps is checked with about one yield per step", () => {
  const ensemble = model(
    `platform: "ensemble" input ${tensor("t0")} output ${tensor(`t${CHAIN}`)} ensemble_scheduling { step [ ${listed(step, CHAIN).join(",")} ] }`,
  );
  const steps = model(`backend: "python" ${TENSORS}`);
  const whole = counted(wrongConfig(ensemble));
  const fitting = counted(wrongSteps(ensemble, () => steps));
  const shapes = counted(stepShapes(ensemble, () => steps));
  expect([whole.result, fitting.result]).toEqual([undefined, undefined]);
  expect(shapes.result).toHaveLength(CHAIN - 1);
  for (const { stops } of [whole, fitting, shapes]) expect(stops).toBeWithin(CHAIN / 100, 4 * CHAIN);
});

test("different configurations have different signatures, equal ones the same", () => {
  const signed = (text: string) => atOnce(signatureOf(atOnce(pbtxtInPieces(text, ROOT, true))));
  const texts = [
    'name: "a"',
    'name: "a" backend: ""',
    'name: "a," backend: ""',
    "input { dims: [ 1, 2 ] }",
    "input { dims: [ 12 ] }",
    "input { dims: 1 } input { dims: 2 }",
    'parameters { key: "a" value { string_value: "b" } }',
    'metric_tags { key: "a" value: "b" }',
    "model_transaction_policy { decoupled: false }",
    "model_transaction_policy { }",
  ];
  expect(new Set(texts.map(signed)).size).toBe(texts.length);
  expect(signed('name: "a" # text\n backend: "b"')).toBe(signed('name: "a", backend: "b"'));
});

test("one-pass lists are printed like JSON.stringify, a few items at a time", () => {
  const entries = listed((at) => `m${at}`).map((name) => ({ name, state: "READY" }));
  const texts = [...jsonTexts({ name: 'é"', none: [], models: entries.values(), last: null })];
  expect(texts.join("")).toBe(JSON.stringify({ name: 'é"', none: [], models: entries, last: null }));
  expect(texts.length).toBeGreaterThan(100);
  for (const one of texts) expect(one.length).toBeLessThan(10_000);
  expect([...jsonTexts(entries.values())].join("")).toBe(JSON.stringify(entries));
  expect([...jsonTexts([])].join("")).toBe("[]");
  expect([...jsonTexts({})].join("")).toBe("{}");
});

const get = async (path: string) => (await fetch(`${child.url}/v2/${path}`)).text();
const load = (name: string, given: object | string = "") =>
  fetch(`${child.url}/v2/repository/models/${name}/load`, {
    method: "POST",
    body: typeof given === "string" ? given : JSON.stringify({ parameters: given }),
  });
const infer = () =>
  fetch(`${child.url}/v2/models/plain/infer`, {
    method: "POST",
    body: '{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}',
  });

/** Checks that short requests that arrive after a long one are answered before it. */
async function expectAnsweredFirst(long: Promise<unknown>): Promise<void> {
  const order: string[] = [];
  const first = long.then(() => order.push("long"));
  for (let at = 0; at < 5; at++) {
    expect((await infer()).status).toBe(200);
    order.push("short");
  }
  await first;
  expect(order).toEqual(["short", "short", "short", "short", "short", "long"]);
}

test("a large configuration is loaded while others are served, and shown over HTTP and gRPC", async () => {
  await expectAnsweredFirst(load("wordy"));
  const shown = JSON.parse(await get("models/wordy/config"));
  const told = Object.fromEntries(listed((at) => `k${at}`, WORDS).map((key) => [key, { string_value: "v" }]));
  expect(shown.parameters).toEqual(told);
  expect(shown).toMatchObject({ name: "wordy", backend: "python", max_batch_size: 0, input: [{ name: "x" }] });
  const { config } = (await client.call("ModelConfig", { name: "wordy" })) as { config: typeof shown };
  expect(config.parameters).toEqual(told);
  expect(config).toMatchObject({ name: "wordy", backend: "python", input: [{ name: "x", dims: ["-1"] }] });
});

test("a load with a large configuration: the same over HTTP and gRPC, refused like a small one", async () => {
  const given = (more = {}) => JSON.stringify({ ...JSON.parse(config), ...more });
  const all = listed((at) => `k${at}`).map((key) => [key, { string_value: "é" }]);
  const config = JSON.stringify({
    backend: "python",
    input: [{ name: "x", data_type: "TYPE_INT32", dims: [-1] }],
    output: [{ name: "y", data_type: "TYPE_INT32", dims: [-1] }],
    parameters: Object.fromEntries(all),
  });
  await expectAnsweredFirst(load("m0", { config }));
  const overGrpc = { model_name: "m1", parameters: { config: { string_param: config } } };
  expect(await client.call("RepositoryModelLoad", overGrpc)).toEqual({});
  const [zero, one] = [JSON.parse(await get("models/m0/config")), JSON.parse(await get("models/m1/config"))];
  expect(zero.parameters).toEqual(JSON.parse(config).parameters);
  expect(one.parameters).toEqual(zero.parameters);
  for (const wrong of [config.slice(0, -1), given({ nope: 1 }), given({ parameters: 5 })]) {
    const answer = await load("m2", { config: wrong });
    expect([answer.status, await answer.json()]).toEqual([
      500,
      { error: "failed to load 'm2', failed to poll from model repository" },
    ]);
  }
  // A body that is cut off is an error of the body, not of the configuration.
  const cut = JSON.stringify({ parameters: { config } }).slice(0, -1);
  expect(await (await load("m2", cut)).text()).toContain(
    `failed to parse the request JSON buffer: Missing a comma or '}' after an object member. at ${Buffer.byteLength(cut)}`,
  );
});

test("files in a load count with their decoded size", async () => {
  const bytes = Buffer.alloc(3_000_000, 7);
  const base64 = bytes.toString("base64");
  const config = '{"backend":"tensorrt","instance_group":[{"kind":"KIND_GPU"}]}';
  const unfit = "weights of 2.86 MiB do not fit";
  for (const text of [base64, base64.replaceAll(/.{76}/g, "$&\n")])
    expect(await (await load("m3", { config, "file:1/model.plan": text })).text()).toContain(unfit);
  const overGrpc = { config: { string_param: config }, "file:1/model.plan": { bytes_param: base64 } };
  const answer = await client.call("RepositoryModelLoad", { model_name: "m3", parameters: overGrpc });
  expect(answer.details).toContain(unfit);
});

test("many models in the index and the statistics, many tensors in a model's metadata", async () => {
  const index = JSON.parse(await (await fetch(`${child.url}/v2/repository/index`, { method: "POST" })).text());
  const { models } = (await client.call("RepositoryIndex", {})) as { models: unknown[] };
  expect(index).toEqual(models);
  expect(index).toHaveLength(SMALL + 3);
  expect(index).toContainEqual({ name: "plain", version: "1", state: "READY" });
  const { model_stats: told } = JSON.parse(await get("models/stats"));
  expect(told.map(({ name }: { name: string }) => name)).toContain("plain");
  const metadata = JSON.parse(await get("models/wide"));
  expect(metadata.inputs).toHaveLength(COUNT);
  expect(metadata.inputs.at(-1)).toEqual({ name: `x${COUNT - 1}`, datatype: "INT32", shape: [-1] });
  const { inputs, outputs, ...overGrpc } = await client.call("ModelMetadata", { name: "wide" });
  expect(metadata).toMatchObject(overGrpc);
  expect(outputs).toEqual([{ name: "y", datatype: "INT32", shape: ["-1"] }]);
  expect(inputs).toHaveLength(COUNT);
});

/** Event-loop turns for tests: each look at the clock takes 100 us, and turns are counted. */
function watched() {
  let us = 0;
  const seen = {
    turns: 0,
    nowUs: () => (us += 100),
    after: (_: number, act: () => void) => {
      seen.turns++;
      queueMicrotask(act);
      return () => {};
    },
  };
  return seen;
}

test("a poll of many folders and of a large configuration yields to the event loop", async () => {
  const read = tritonServerConfig([`--model-repository=${base}`, "--model-control-mode=poll"], "");
  if ("error" in read) throw new Error(read.error);
  const clock = new VirtualClock();
  const turns = watched();
  const server = new TritonServer({
    config: read.config.triton!,
    targets: [],
    clock,
    turns,
    epochMs: () => 0,
    backends: () => undefined,
    memory: { gpuBytes: null, engine: { weightBytes: 0, kvBytes: 0, gpus: 1 }, loadLimits: new Map() },
    random: () => 0,
    log: () => {},
  });
  expect(await server.start()).toEqual([]);
  const before = turns.turns;
  const wanted = WORDS / 1000 + SMALL / 20;
  clock.advanceBy(read.config.triton!.repository.pollS * 1e6);
  for (let at = 0; at < 1000 && turns.turns < before + wanted; at++) await new Promise(setImmediate);
  expect(turns.turns - before).toBeGreaterThanOrEqual(wanted);
});

test("a long JSON answer is made over several turns of the event loop and sent in parts; a short one is made at once", async () => {
  const turns = watched();
  const sent = Promise.withResolvers<readonly [parts: readonly Uint8Array[], bytes: number]>();
  const call = {
    around: { turns },
    answerParts: (_: unknown, parts: readonly Uint8Array[], bytes: number) => sent.resolve([parts, bytes]),
  } as unknown as HttpCall;
  const config = model(`backend: "python" ${TENSORS} ${parameters()}`);
  expect(await toldJson(call, configTexts(config, true))).toBe(LATER);
  const [parts, bytes] = await sent.promise;
  const whole = [...configTexts(config, true)].join("");
  expect(Buffer.concat(parts).toString()).toBe(whole);
  expect(bytes).toBe(Buffer.byteLength(whole));
  expect(Math.max(...parts.map(({ length }) => length))).toBeLessThan(80_000);
  expect(turns.turns).toBeGreaterThan(10);
  const short = toldJson(call, configTexts(model(`backend: "python" ${TENSORS}`), true));
  expect(short).toMatchObject({ status: 200, headers: { "Content-Type": "application/json" } });
});

/** Tests bad folders, models and requests one by one. Each is refused with Triton's message, and the server continues. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../server.ts";
import { startTriton, type TritonChild } from "./child.ts";

setDefaultTimeout(30_000);

const X = 'input { name: "x" data_type: TYPE_INT32 dims: [ -1 ] }';
const IO = `backend: "python" ${X} output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }`;
const DECOUPLED = "model_transaction_policy { decoupled: true }";
const sending = (...sent: string[]) =>
  `export default { execute([one]) { ${sent.map((what) => `one.send(${what});`).join(" ")} return null; } }`;
const STRAY = `const [shape, datatype, data] = [[1], "FP32", new Uint8Array(4)];
  export default { execute: (all) => all.map(() => ({ outputs: ["y", "ZZ"].map((name) => ({ name, shape, datatype, data })) })) }`;
const step = (
  maps: string,
  version = -1,
) => `platform: "ensemble" input { name: "a" data_type: TYPE_INT32 dims: [ -1 ] }
  output { name: "b" data_type: TYPE_FP32 dims: [ 1 ] }
  ensemble_scheduling { step { model_name: "leaf" model_version: ${version} ${maps} } }`;
const maps = (input = "x", output = "y") =>
  `input_map { key: "${input}" value: "a" } output_map { key: "${output}" value: "b" }`;

/** The configuration, the message of a load after "failed to load" or "load failed for model", and a `model.ts`. */
type Folder = readonly [config: string, said: string, code?: string];
const POLL = "failed to poll from model repository";
const FOLDERS: Readonly<Record<string, Folder>> = {
  leaf: [IO, ""],
  deep: [`backend: "python" ${"parameters { ".repeat(50_000)}`, POLL],
  zero: [`\0${IO}`, POLL],
  instances: [`${IO} instance_group { count: 2000000000 }`, "has 2000000000 instances: a stand-in takes 10000"],
  levels: [
    `${IO} max_batch_size: 4 dynamic_batching { priority_levels: 4000000000 default_priority_level: 1 }`,
    "has 4000000000 priority levels: a stand-in takes 10000",
  ],
  direct: [`${IO} max_batch_size: 2000000000 sequence_batching { direct { } }`, "slots of sequences"],
  oldest: [
    `${IO} max_batch_size: 4 sequence_batching { oldest { max_candidate_sequences: 2000000000 } }`,
    "slots of sequences",
  ],
  warm: [
    `${IO} model_warmup { name: "w" batch_size: 4000000000 inputs { key: "x" value { data_type: TYPE_INT32 dims: 9 } } }`,
    "has 4000000000 requests in warm-up w: a stand-in takes 100000",
  ],
  "warm-many": [
    `${IO} instance_group { count: 300 } model_warmup { name: "w" batch_size: 1 count: 500 inputs { key: "x" value { data_type: TYPE_INT32 dims: 9 } } }`,
    "has 150000 requests in warm-up w: a stand-in takes 100000",
  ],
  "warm-large": [
    `${IO} model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_INT32 dims: 9000000 } } }`,
    "bytes in a tensor of warm-up w",
  ],
  stranger: [
    `${IO} model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_INT32 dims: 1 } } }`,
    "[request id: <id_unknown>] warmup setting expects input 'x' to have input_data_type set",
  ],
  "no-input": [
    step(maps("z")),
    "in ensemble no-input, ensemble tensor a is mapping to non-existing input z in model leaf",
  ],
  "no-output": [
    step(maps("x", "z")),
    "in ensemble no-output, ensemble tensor b is mapped from non-existing output z in model leaf",
  ],
  "no-version": [step(maps(), 9), "depends on 'leaf' whose required version 9 is not loaded."],
  "other-type": [
    step(maps()).replace("TYPE_INT32", "TYPE_BOOL"),
    "ensemble tensor a: inconsistent data type: TYPE_BOOL is inferred from model other-type while TYPE_INT32 is inferred from model leaf",
  ],
  "other-shape": [
    step(maps()).replace("dims: [ 1 ]", "dims: [ 7 ]"),
    "ensemble tensor b: inconsistent shape: [7] is inferred from model other-shape while [1] is inferred from model leaf",
  ],
  "larger-batch": [
    `max_batch_size: 8 ${step(maps()).replace("leaf", "four")}`,
    "allows maximum batch size 8, but it contains model four which only allows maximum batch size to be 4",
  ],
  four: [`max_batch_size: 4 ${IO}`, ""],
  itself: [step(maps()).replace("leaf", "itself"), "circular dependency between ensembles: itself -> itself"],
  "throws-early": [IO, "Internal: Error: null", "export default { initialize() { throw null; }, execute() {} }"],
  syntax: [IO, "Internal: Expected identifier but found end of file", "export default { execute("],
  large: [IO.replace("dims: [ 1 ]", "dims: [ 2000000000 ]"), ""],
  text: [IO, "", "export default { execute() { throw 'a text'; } }"],
  number: [IO, "", "export default { execute: () => 5 }"],
  rejects: [
    IO,
    "",
    "export default { execute: (all) => (Promise.reject(new Error('late')), all.map(() => ({ outputs: [] }))) }",
  ],
  later: [
    IO,
    "",
    "export default { execute: (all) => (setTimeout(() => { throw new Error('later'); }, 1), all.map(() => ({ outputs: [] }))) }",
  ],
  sleeps: [
    IO,
    "",
    "export default { async execute(all, host) { await host.sleep(NaN); await host.sleep(-1); return all.map(() => ({ outputs: [] })); } }",
  ],
  stray: [IO, "", STRAY],
  "stray-core": [IO.replace("python", "onnxruntime"), "", STRAY],
  sends: [
    `${IO} ${DECOUPLED}`,
    "",
    sending("5, false", "{ outputs: [{ name: 'y' }] }, false", "null, true", "null, true"),
  ],
};

let folder: string;
let server: TritonChild;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "triton-bad-"));
  for (const [name, [config, , code]] of Object.entries(FOLDERS)) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    writeFileSync(join(folder, name, "config.pbtxt"), config);
    if (code !== undefined) writeFileSync(join(folder, name, "model.ts"), code);
  }
  const own = new URL("models", import.meta.url).pathname;
  for (const name of ["prio", "plain", "tokens"]) cpSync(join(own, name), join(folder, name), { recursive: true });
  const loaded = ["prio", "plain", "tokens"].map((name) => `--load-model=${name}`);
  server = await startTriton([
    `--model-repository=${folder}`,
    "--model-control-mode=explicit",
    "--load-time=0",
    ...loaded,
  ]);
});
afterAll(async () => {
  await server.stop("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

async function post(path: string, body?: unknown): Promise<readonly [status: number, text: string]> {
  const answer = await fetch(`${server.url}/v2/${path}`, {
    method: "POST",
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return [answer.status, await answer.text()];
}

test.each(Object.entries(FOLDERS))("load of %s", async (name, [, said]) => {
  const [status, text] = await post(`repository/models/${name}/load`);
  expect([status === 200, said !== "" && text.includes(said)]).toEqual([said === "", said !== ""]);
});

const INPUT = { inputs: [{ name: "x", shape: [1], datatype: "INT32", data: [1] }] };
test.each([
  ["large", 500, "would be drawn: at most 67108864 bytes are"],
  ["text", 500, "message: Error: a text"],
  ["number", 500, "message: Error: it gave no list of responses"],
  ["rejects", 200, '"outputs":[]'],
  ["later", 200, '"outputs":[]'],
  ["sleeps", 200, '"outputs":[]'],
  // The Python backend leaves out outputs that the request did not name. With other backends, the core refuses them.
  ["stray", 200, '"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[0.0]}]'],
  ["stray-core", 400, "unexpected inference output 'ZZ' for model 'stray-core'"],
])("a model with an error: %s", async (name, status, said) => {
  const [got, text] = await post(`models/${name}/infer`, INPUT);
  expect([got, text.includes(said)]).toEqual([status, true]);
});

test("an error that a model throws after its answer is logged, and invalid responses end its stream", async () => {
  await eventually(() => ["late", "later"].every((what) => server.output().includes(`after its answer: ${what}`)));
  const [, stream] = await post("models/sends/generate_stream", { x: 1 });
  expect(stream.split("\n\n").filter(Boolean)).toEqual([
    `data: {"error":"model 'sends' gave no response"}`,
    `data: {"error":"model 'sends' gave an output 'y' whose data do not fit its type and shape"}`,
  ]);
});

const ofPriority = (parameters: object) => ({
  inputs: [{ name: "text_input", shape: [1, 1], datatype: "BYTES", data: ["hi"] }],
  parameters,
});
const UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
test.each([
  [{ priority: 99 }, 200, "HI"],
  [{ priority: -1 }, 500, `Unable to parse 'priority': ${UNSIGNED}`],
  [{ priority: "x" }, 500, `Unable to parse 'priority': ${UNSIGNED}`],
  [{ priority: 1e30 }, 500, `Unable to parse 'priority': ${UNSIGNED}`],
  [{ timeout: -1 }, 500, `Unable to parse 'timeout': ${UNSIGNED}`],
  [{ timeout: 1.5 }, 500, `Unable to parse 'timeout': ${UNSIGNED}`],
  [{ timeout: 2 ** 52 }, 200, "HI"],
  [{ sequence_id: 1.5 }, 500, "Unable to parse 'sequence_id'"],
  [{ sequence_id: {} }, 500, "Unable to parse 'sequence_id'"],
])("a parameter out of range: %j", async (parameters, status, said) => {
  const [got, text] = await post("models/prio/infer", ofPriority(parameters));
  expect([got, text.includes(said)]).toEqual([status, true]);
});

test.each([
  ["a configuration without end", "plain", { config: "[".repeat(100_000) }, POLL],
  ["a file beside the folder", "plain", { config: '{"backend":"python"}', "file:../../x": "aGk=" }, POLL],
  ["a path as name", "..%2f", {}, POLL],
])("load with %s", async (_, name, parameters, said) => {
  const [status, text] = await post(`repository/models/${name}/load`, { parameters });
  expect([status, text.includes(said)]).toEqual([500, true]);
});

test("a streaming client that does not read: its request is cancelled, others are served", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.pause();
  const words = Array.from({ length: 30_000 }, () => "w".repeat(100)).join(" ");
  const body = JSON.stringify({ text_input: words, max_tokens: 30_000, sleep_ms: 0 });
  socket.write(
    `POST /v2/models/tokens/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  for (let turn = 0; turn < 5; turn++) expect((await post("models/plain/generate", { text_input: "hi" }))[0]).toBe(200);
  socket.destroy();
  expect((await post("models/tokens/generate_stream", { text_input: "a" }))[0]).toBe(200);
});

test("a flood of requests: each is answered, and none stays pending", async () => {
  const all = await Promise.all(Array.from({ length: 500 }, () => post("models/plain/generate", { text_input: "hi" })));
  expect(new Set(all.map(([status]) => status))).toEqual(new Set([200]));
});

test("without its repository the server keeps serving loaded models, and loads and the index report the error", async () => {
  rmSync(folder, { recursive: true });
  expect(await post("repository/index")).toEqual([500, `{"error":"failed to open directory ${folder}"}`]);
  expect((await post("repository/models/leaf/load"))[1]).toContain(POLL);
  expect((await post("models/plain/generate", { text_input: "hi" }))[0]).toBe(200);
  expect((await post("repository/models/plain/unload"))[0]).toBe(200);
  const page = await (await fetch(`${server.metrics}/metrics`)).text();
  const pending = page.split("\n").filter((line) => line.startsWith("nv_inference_pending_request_count{"));
  expect(pending.filter((line) => !line.endsWith(" 0"))).toEqual([]);
});

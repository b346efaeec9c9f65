/** Tests what the recordings do not cover: version 2.73, models of users, loads, bad requests and shared memory. */
import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../server.ts";
import { hostTriton, startTriton, type TritonHosted } from "./child.ts";
import { TritonClient } from "./grpc-client.ts";

const base = mkdtempSync(join(tmpdir(), "triton-test-"));
const children: TritonHosted[] = [];
afterAll(async () => {
  await Promise.all(children.map((child) => child.stop(0)));
  rmSync(base, { recursive: true, force: true });
});

const own = new URL("models", import.meta.url).pathname;
let repositories = 0;

/** Creates a repository of text files by path, and of copied models of the recordings. */
function repository(files: Readonly<Record<string, string>>, copied: readonly string[] = []): string {
  const folder = join(base, `${repositories++}`);
  mkdirSync(folder);
  for (const name of copied) cpSync(join(own, name), join(folder, name), { recursive: true });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

async function started(folder: string, ...flags: string[]): Promise<TritonHosted> {
  const child = await hostTriton([`--model-repository=${folder}`, ...flags]);
  children.push(child);
  return child;
}

const TEXT = { name: "text_input", shape: [1], datatype: "BYTES", data: ["hi"] };
const ask = (inputs: readonly unknown[], more: object = {}) => ({
  method: "POST",
  body: JSON.stringify({ inputs, ...more }),
});
const model = (more: string, output = "TYPE_FP32") => `
  input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "y" data_type: ${output} dims: [ 3, -1 ] } ${more}`;
const X = { name: "x", shape: [2], datatype: "FP32", data: [1, 2] };

test("differences of 2.73 from 2.51", async () => {
  const { url, metrics, grpc } = await started(
    repository({}, ["plain", "tokens", "types"]),
    "--metrics-config=histogram_latencies=true",
  );
  const unknown = await fetch(`${url}/v2/models/nope/infer`, ask([]));
  expect([unknown.status, await unknown.text()]).toEqual([
    400,
    `{"error":"Request for unknown model: 'nope' is not found"}`,
  ]);
  expect(await (await fetch(`${url}/v2`)).json()).toMatchObject({ version: "2.73.0" });
  const mode = { name: "mode", shape: [1], datatype: "BYTES", data: ["raise"] };
  const raised = await fetch(`${url}/v2/models/plain/infer`, ask([TEXT, mode]));
  expect(await raised.text()).toContain(
    "Failed to process the request(s) for model instance 'plain_0_0', message: RuntimeError: boom",
  );
  const shared = await fetch(`${url}/v2/systemsharedmemory/region/r/register`, { method: "POST", body: "{}" });
  expect([shared.status, await shared.text()]).toEqual([
    501,
    `{"error":"Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."}`,
  ]);
  const header = { headers: { "Inference-Header-Content-Length": "x" } };
  const length = await fetch(`${url}/v2/models/plain/infer`, { ...ask([TEXT]), ...header });
  expect([length.status, await length.text()]).toEqual([
    400,
    `{"error":"Unable to parse Inference-Header-Content-Length, got: x"}`,
  ]);
  const empty = await fetch(`${url}/v2/models/types/generate`, { method: "POST", body: '{"FP32":[]}' });
  expect([empty.status, await empty.text()]).toEqual([
    400,
    `{"error":"[request id: <id_unknown>] unexpected shape for input 'FP32' for model 'types'. Expected [-1], got []. "}`,
  ]);
  await (await fetch(`${url}/v2/models/tokens/generate_stream`, { method: "POST", body: '{"text_input":"a"}' })).text();
  const page = await (await fetch(`${metrics}/metrics`)).text();
  expect(page).toContain('nv_inference_first_response_histogram_ms_count{model="tokens",version="1"} 1');
  expect(page).toContain("# TYPE nv_model_load_duration_secs gauge");
  const kill = { ...mode, data: ["kill"] };
  await fetch(`${url}/v2/models/plain/infer`, ask([TEXT, kill]));
  const ready = async (path: string) => (await fetch(`${url}/v2/${path}/ready`)).status;
  expect([await ready("health"), await ready("models/plain"), await ready("models/types")]).toEqual([400, 400, 200]);
  const client = new TritonClient(grpc);
  expect(await client.call("ModelReady", { name: "plain" })).toEqual({});
  client.client.close();
});

test("folders of users work as they are: drawn tensors repeat with the seed, and the start reports them", async () => {
  const folder = repository({
    "onnx/config.pbtxt": model('platform: "onnxruntime_onnx" max_batch_size: 8 dynamic_batching { }'),
    "onnx/1/model.onnx": "",
    "trt/config.pbtxt": model(
      'backend: "tensorrt" parameters { key: "understudy_us" value { string_value: "base=0" } }',
      "TYPE_STRING",
    ),
    "trt/1/model.plan": "",
    "torch/config.pbtxt": model('platform: "pytorch_libtorch"', "TYPE_INT64"),
    "torch/1/model.pt": "",
    "py/config.pbtxt": model('backend: "python"', "TYPE_BOOL"),
    "py/1/model.py": "raise",
    "both/config.pbtxt": `platform: "ensemble" ${model("")} ensemble_scheduling { step [
      { model_name: "py" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }`.replace(
      "TYPE_FP32 dims: [ 3",
      "TYPE_BOOL dims: [ 3",
    ),
    "both/1/none": "",
  });
  const asked = async () => {
    const { url, output } = await started(folder, "--seed=7");
    expect(output()).toContain("model onnx version 1: drawn tensors after 1000 us and 0 us per item");
    const answers = [];
    for (const [name, input] of [
      ["onnx", { ...X, shape: [1, 2] }],
      ["trt", X],
      ["torch", X],
      ["py", X],
      ["both", X],
    ] as const) {
      const answer = await fetch(`${url}/v2/models/${name}/infer`, ask([input]));
      answers.push(await answer.json());
      expect(answer.status).toBe(200);
    }
    return answers as { outputs: { datatype: string; shape: number[]; data: unknown[] }[] }[];
  };
  const first = await asked();
  expect(first.map(({ outputs: [output] }) => [output!.datatype, output!.shape, output!.data.length])).toEqual([
    ["FP32", [1, 3, 1], 3],
    ["BYTES", [3, 1], 3],
    ["INT64", [3, 1], 3],
    ["BOOL", [3, 1], 3],
    ["BOOL", [3, 1], 3],
  ]);
  expect(await asked()).toEqual(first);
});

const TS = `backend: "python" input { name: "x" data_type: TYPE_INT32 dims: [ -1 ] }
  output { name: "y" data_type: TYPE_INT32 dims: [ -1 ] }`;

test("a model.ts: answers, exceptions and errors", async () => {
  const code = (body: string) => `export default class { execute(requests, host) { ${body} } }`;
  const folder = repository({
    "good/config.pbtxt": TS,
    "good/1/f": "",
    "good/model.ts": code("return requests.map(({ inputs }) => ({ outputs: [{ ...inputs.get('x'), name: 'y' }] }));"),
    "throws/config.pbtxt": TS,
    "throws/1/f": "",
    "throws/model.ts": code("throw new TypeError('no such luck');"),
    "few/config.pbtxt": TS,
    "few/1/f": "",
    "few/model.ts": code("return [];"),
    "shape/config.pbtxt": TS,
    "shape/1/f": "",
    "shape/model.ts": code(
      "return requests.map(({ inputs }) => ({ outputs: [{ ...inputs.get('x'), name: 'y', shape: [9] }] }));",
    ),
    "nothing/config.pbtxt": TS,
    "nothing/1/f": "",
    "nothing/model.ts": code("return requests.map(() => undefined);"),
  });
  const { url } = await started(folder);
  const x = { name: "x", shape: [2], datatype: "INT32", data: [1, 2] };
  const said = async (name: string) => {
    const answer = await fetch(`${url}/v2/models/${name}/infer`, ask([x]));
    return [answer.status, await answer.text()];
  };
  expect(await said("good")).toEqual([
    200,
    '{"model_name":"good","model_version":"1","outputs":[{"name":"y","datatype":"INT32","shape":[2],"data":[1,2]}]}',
  ]);
  expect((await said("throws"))[1]).toContain("message: TypeError: no such luck");
  expect((await said("few"))[1]).toContain("InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\\n");
  expect((await said("shape"))[1]).toContain("gave an output 'y' whose data do not fit its type and shape");
  expect((await said("nothing"))[1]).toContain("gave no response");
  const stats = (await (await fetch(`${url}/v2/models/stats`)).json()) as {
    model_stats: { name: string; inference_stats: { fail: { count: number } } }[];
  };
  expect(stats.model_stats.map(({ name, inference_stats: { fail } }) => `${name} ${fail.count}`)).toEqual([
    "few 1",
    "good 0",
    "nothing 0",
    "shape 0",
    "throws 1",
  ]);
});

test.each([
  [{ "a/config.pbtxt": "nam: 1", "a/1/f": "" }, '1:1: Message type "inference.ModelConfig" has no field named "nam".'],
  [{ "a/config.pbtxt": 'backend: "nope"', "a/1/f": "" }, "unable to find backend library for backend 'nope'"],
  [
    { "a/config.pbtxt": 'backend: "python"', "a/1/f": "", "a/behaviour.yaml": "behaviour: fly" },
    "behaviour: fly: echo, add_sub",
  ],
  [
    { "a/config.pbtxt": 'backend: "python"', "a/1/f": "", "a/model.ts": "export default 5" },
    "its default export has no execute",
  ],
])("a model that does not load ends the start with one line: %#", async (files: Record<string, string>, why) => {
  const folder = repository(files);
  const failed = await startTriton([`--model-repository=${folder}`]).then(
    (child) => child.stop("SIGKILL").then(() => "it started"),
    (error: Error) => error.message,
  );
  expect(failed).toContain("creating server: Internal - failed to load all models: a: ");
  expect(failed).toContain(why);
  expect(failed).toContain("ended with 2");
  const { url, output } = await started(folder, "--exit-on-error=false");
  expect(output()).toContain("failed to load a: ");
  expect(output()).toContain(why);
  expect((await fetch(`${url}/v2/health/ready`)).status).toBe(why.startsWith("1:1") ? 200 : 400);
});

test("polling follows changes of the repository", async () => {
  const folder = repository({}, ["plain"]);
  const { url } = await started(folder, "--model-control-mode=poll", "--repository-poll-secs=1");
  cpSync(join(own, "batched"), join(folder, "batched"), { recursive: true });
  rmSync(join(folder, "plain"), { recursive: true });
  await eventually(async () => (await fetch(`${url}/v2/models/batched/ready`)).status === 200);
  await eventually(async () => (await fetch(`${url}/v2/models/plain/ready`)).status === 400);
  const load = await fetch(`${url}/v2/repository/models/batched/load`, { method: "POST" });
  expect([load.status, await load.text()]).toEqual([
    503,
    '{"error":"explicit model load / unload is not allowed if polling is enabled"}',
  ]);
});

test("loads: one under way, one during an unload, circular ensembles, and a vanished folder", async () => {
  const step = (name: string) =>
    `platform: "ensemble" input { name: "a" data_type: TYPE_INT32 dims: 1 } output { name: "b" data_type: TYPE_INT32 dims: 1 }
     ensemble_scheduling { step { model_name: "${name}" model_version: -1 input_map { key: "a" value: "a" } output_map { key: "b" value: "b" } } }`;
  const circle = { "one/config.pbtxt": step("two"), "one/1/f": "", "two/config.pbtxt": step("one"), "two/1/f": "" };
  const folder = repository({ ...circle, "lost/config.pbtxt": step("nobody"), "lost/1/f": "" }, ["plain"]);
  const { url } = await started(folder, "--model-control-mode=explicit", "--load-time=1");
  const post = (path: string) => fetch(`${url}/v2/repository/models/${path}`, { method: "POST" });
  const loading = post("plain/load");
  await eventually(async () =>
    (await (await fetch(`${url}/v2/repository/index`, { method: "POST" })).text()).includes('"LOADING"'),
  );
  expect((await fetch(`${url}/v2/health/ready`)).status).toBe(400);
  const early = await fetch(`${url}/v2/models/plain/versions/1/infer`, ask([TEXT]));
  expect(await early.text()).toContain("version 1 is not at ready state");
  expect((await loading).status).toBe(200);
  expect((await fetch(`${url}/v2/health/ready`)).status).toBe(200);
  const slow = fetch(
    `${url}/v2/models/plain/infer`,
    ask([TEXT, { name: "sleep_ms", shape: [1], datatype: "INT32", data: [400] }]),
  );
  await eventually(async () => (await (await fetch(`${url}/v2/models/plain/stats`)).text()).includes("plain"));
  await Bun.sleep(50);
  const [unloaded, loaded] = await Promise.all([post("plain/unload"), post("plain/load")]);
  expect([unloaded.status, loaded.status, (await slow).status]).toEqual([200, 200, 200]);
  expect((await fetch(`${url}/v2/models/plain/ready`)).status).toBe(200);
  expect(await (await post("one/load")).text()).toContain("circular dependency between ensembles");
  expect(await (await post("lost/load")).text()).toContain("depends on 'nobody' which has no loaded version");
  rmSync(join(folder, "plain"), { recursive: true });
  const gone = await post("plain/load");
  expect([gone.status, await gone.text()]).toEqual([
    500,
    `{"error":"failed to load 'plain', failed to poll from model repository"}`,
  ]);
  expect((await fetch(`${url}/v2/models/plain/infer`, ask([TEXT]))).status).toBe(200);
});

test("tensors in and out of system shared memory", async () => {
  const file = `/dev/shm/understudy-test-${process.pid}`;
  writeFileSync(file, Buffer.concat([Buffer.from([2, 0, 0, 0]), Buffer.from("hi"), Buffer.alloc(58)]));
  try {
    const { url } = await started(repository({}, ["plain"]), "--allow-client-shm=true");
    const post = async (path: string, body: object) => {
      const answer = await fetch(`${url}/v2/systemsharedmemory${path}`, { method: "POST", body: JSON.stringify(body) });
      return [answer.status, await answer.text()];
    };
    const key = file.slice("/dev/shm".length);
    expect(await post("/region/r/register", { key, offset: 0, byte_size: 64 })).toEqual([200, ""]);
    expect(await post("/region/r/register", { key, offset: 0, byte_size: 64 })).toEqual([
      400,
      `{"error":"shared memory region 'r' already in manager"}`,
    ]);
    expect((await post("/region/s/register", { key, offset: 60, byte_size: 64 }))[0]).toBe(400);
    expect((await post("/region/s/register", { key: "/../etc/passwd", byte_size: 1 }))[0]).toBe(500);
    const region = (offset: number, bytes: number) => ({
      shared_memory_region: "r",
      shared_memory_offset: offset,
      shared_memory_byte_size: bytes,
    });
    const answer = await fetch(`${url}/v2/models/plain/infer`, {
      method: "POST",
      body: JSON.stringify({
        inputs: [{ name: "text_input", shape: [1], datatype: "BYTES", parameters: region(0, 6) }],
        outputs: [{ name: "text_output", parameters: region(32, 16) }],
      }),
    });
    expect(await answer.json()).toMatchObject({ outputs: [{ name: "text_output", datatype: "BYTES", shape: [1] }] });
    expect(new Uint8Array(await Bun.file(file).arrayBuffer()).subarray(32, 38)).toEqual(
      new Uint8Array([2, 0, 0, 0, 72, 73]),
    );
    const beyond = await fetch(
      `${url}/v2/models/plain/infer`,
      ask([{ ...TEXT, data: undefined, parameters: region(60, 6) }]),
    );
    expect(await beyond.text()).toBe(`{"error":"Invalid offset + byte size for shared memory region: 'r'"}`);
    const [shown] = (await (await fetch(`${url}/v2/systemsharedmemory/status`)).json()) as object[];
    expect(shown).toEqual({ name: "r", key, offset: 0, byte_size: 64 });
    expect(await post("/unregister", {})).toEqual([200, ""]);
    expect(await (await fetch(`${url}/v2/systemsharedmemory/status`)).text()).toBe("[]");
  } finally {
    rmSync(file);
  }
});

test("preserve_ordering: responses leave in the order of the requests, not of their ends", async () => {
  const text = (ordered: boolean) => `backend: "python" max_batch_size: 1
    input [ { name: "text_input" data_type: TYPE_STRING dims: 1 }, { name: "sleep_ms" data_type: TYPE_INT32 dims: 1 optional: true } ]
    output { name: "text_output" data_type: TYPE_STRING dims: 1 } instance_group { count: 2 }
    dynamic_batching { preserve_ordering: ${ordered} }`;
  const files = (name: string, ordered: boolean) => ({
    [`${name}/config.pbtxt`]: text(ordered),
    [`${name}/1/f`]: "",
    [`${name}/behaviour.yaml`]: "behaviour: echo",
  });
  const { url } = await started(repository({ ...files("kept", true), ...files("free", false) }));
  const ends: string[] = [];
  const one = async (name: string, said: string, ms: number) => {
    const inputs = [
      { ...TEXT, shape: [1, 1], data: [said] },
      { name: "sleep_ms", shape: [1, 1], datatype: "INT32", data: [ms] },
    ];
    await (await fetch(`${url}/v2/models/${name}/infer`, ask(inputs))).text();
    ends.push(`${name} ${said}`);
  };
  for (const name of ["kept", "free"]) {
    const first = one(name, "first", 400);
    await Bun.sleep(100);
    await Promise.all([first, one(name, "second", 0)]);
  }
  expect(ends).toEqual(["kept first", "kept second", "free second", "free first"]);
});

/** Sends bytes unchanged. Returns the answer until the connection ends or falls silent. */
async function raw(url: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  let text = "";
  return new Promise((done) => {
    socket.on("data", (part) => (text += part.toString()));
    socket.on("close", () => done(text)).on("error", () => done(text));
    socket.setTimeout(500, () => socket.destroy());
    socket.write(bytes);
  });
}

test("bad requests are refused without a crash, and none stays pending", async () => {
  const { url, metrics } = await started(
    repository({}, ["plain", "batched", "tokens"]),
    "--http-max-input-size=100000",
  );
  const post = (path: string, body: string) => fetch(`${url}/v2/models/${path}`, { method: "POST", body });
  const huge = await post(
    "plain/infer",
    `{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":["${"x".repeat(200_000)}"]}]}`,
  );
  expect([huge.status, (await huge.text()).includes("--http-max-input-size")]).toEqual([400, true]);
  const declared = "POST /v2/models/plain/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n";
  expect(await raw(url, declared)).toContain("HTTP/1.1 400 Bad Request");
  expect(await raw(url, "nonsense\r\n\r\n")).toBe("");
  expect(await raw(url, `GET /v2 HTTP/1.1\r\nX: ${"y".repeat(70_000)}\r\n\r\n`)).toBe("");
  const deep = `{"inputs":[{"name":"A","shape":[1,2],"datatype":"INT32","data":${"[".repeat(500)}1${"]".repeat(500)}}]}`;
  expect((await post("batched/infer", deep)).status).toBe(400);
  expect((await post("batched/infer", "[".repeat(50_000))).status).toBe(500);
  const claimed = '{"inputs":[{"name":"A","shape":[1,99999999999],"datatype":"INT32","data":[1]}]}';
  expect((await post("batched/infer", claimed)).status).toBe(400);
  const leaves = await fetch(`${url}/v2/models/tokens/generate_stream`, {
    method: "POST",
    body: '{"text_input":"a b c","max_tokens":10000,"sleep_ms":5}',
  });
  await leaves.body!.cancel();
  const bodies = [
    "",
    "{",
    "[]",
    "null",
    '{"inputs":null}',
    '{"inputs":[5]}',
    '{"inputs":[{"name":1}]}',
    '{"parameters":[]}',
    "\u0000",
  ];
  for (const body of bodies)
    for (const path of ["plain/infer", "plain/generate", "tokens/generate_stream"])
      expect((await post(path, body)).status).toBeGreaterThanOrEqual(400);
  const page = await (await fetch(`${metrics}/metrics`)).text();
  const pending = page.split("\n").filter((line) => line.startsWith("nv_inference_pending_request_count{"));
  expect(pending.map((line) => line.slice(-2))).toEqual([" 0", " 0", " 0"]);
  expect((await post("plain/generate", '{"text_input":"hi"}')).status).toBe(200);
});

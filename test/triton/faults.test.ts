/** Tests that the plans of docs/reference/faults.md disturb a Triton server's answers, and are counted. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CallOptions, Metadata, status } from "@grpc/grpc-js";
import { FAULT_ROWS } from "../../src/faults/table.ts";
import { FrameFlag, FrameType } from "../../src/wire/http2/frames.ts";
import { posted } from "../conformance/raw-socket.ts";
import { plansOf } from "../faults/cases.ts";
import { bytesOf, cleanAnswer, difference, predicted, readWire } from "../faults/wire.ts";
import { eventually } from "../server.ts";
import { sampled } from "../size.ts";
import { headers } from "../wire/http2/peer.ts";
import { hostTriton, type TritonHosted } from "./child.ts";
import { data, encoded, framed, grpcHead, plain, RawClient, TritonClient, tokens } from "./grpc-client.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "triton-faults-"));
const truth = join(folder, "truth.jsonl");
let server: TritonHosted;
let client: TritonClient;
beforeAll(async () => {
  const own = new URL("models", import.meta.url).pathname;
  for (const name of ["tokens", "plain"]) cpSync(join(own, name), join(folder, "models", name), { recursive: true });
  server = await hostTriton([
    `--model-repository=${join(folder, "models")}`,
    "--allow-request-orders=all",
    `--truth-log=${truth}`,
  ]);
  client = new TritonClient(server.grpc);
});
afterAll(async () => {
  client.close();
  await server.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

const TEXT = "Grüße, 🦔 and 👩‍👩‍👧 again and → now";
const order = (plan: string) => `X-Understudy: ${JSON.stringify({ fault: plan })}`;
const STREAM = "/v2/models/tokens/generate_stream";

function ask(plan: string | null, key: string, enough?: number) {
  const port = Number(new URL(server.url).port);
  const headers = [`X-Request-Id: ${key}`, ...(plan === null ? ["Connection: close"] : [order(plan)])];
  return readWire(port, posted(STREAM, { text_input: TEXT }, headers), enough);
}

/**
 * Rows of faults that apply to generate_stream. Triton's streams have no last event of their own, so faults on that event are
 * left out.
 */
const shown = [...FAULT_ROWS.values()].filter(
  ({ stage, http, dialects, position, excludes }) =>
    stage !== "client" &&
    stage !== "instead" &&
    http === "any" &&
    dialects.includes("generate") &&
    (position !== "done" || stage === "end") &&
    excludes !== "content coding",
);
const plans = sampled("triton", shown.flatMap(plansOf), 6).filter((plan) => !/accept|^H8.*50|^H9.*30|clock/.test(plan));

test.each(plans)("generate_stream, %s: the bytes equal the pipeline's output for the clean answer", async (plan) => {
  const key = `key-${Bun.hash(plan)}`;
  const { head, ...more } = cleanAnswer((await ask(null, key)).bytes);
  const clean = { ...more, head: head.replace("Connection: close\r\n", "") };
  const operations = predicted(clean, plan, key);
  const end = operations.at(-1)!;
  const stays = end.kind === "end" && end.how === "done";
  const faulty = await ask(plan, key, stays ? bytesOf(operations).length : undefined);
  expect(difference(faulty.bytes, bytesOf(operations))).toBeNull();
  expect(faulty.end).toBe(stays ? "open" : end.kind === "end" ? (end.how as "fin" | "rst") : "open");
});

const sent = (path: string, plan: string, body: object) => {
  const headers = { "X-Understudy": JSON.stringify({ fault: plan }) };
  return fetch(`${server.url}/v2/models/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
};
const INPUTS = [{ name: "text_input", shape: [1], datatype: "BYTES", data: ["hi"] }];

test("substituted answers have Triton's form; invalid orders are refused", async () => {
  const busy = await sent("plain/infer", "A1", { inputs: INPUTS });
  expect([busy.status, busy.headers.get("retry-after"), await busy.text()]).toEqual([
    429,
    "1",
    '{"error":"Too Many Requests"}',
  ]);
  const text = await sent("plain/generate", "A2,503,body=text", { text_input: "x" });
  expect([text.status, text.headers.get("content-type"), await text.text()]).toEqual([
    503,
    "text/plain; charset=utf-8",
    "Service Unavailable\n",
  ]);
  const wrong = await sent("plain/generate", "Z1", { text_input: "x" });
  expect([wrong.status, await wrong.json()]).toEqual([
    400,
    {
      error: 'understudy: fault plan, character 1: "Z1" is not a fault; understudy fault list prints them, B1 to C3',
    },
  ]);
  const headers = { "X-Understudy": '{"echo":true}' };
  const echo = await fetch(`${server.url}/v2/models/plain/generate`, { method: "POST", headers, body: "{}" });
  expect([echo.status, await echo.json()]).toEqual([
    400,
    { error: 'understudy: a Triton server takes orders of "fault" alone' },
  ]);
});

const ordered = (plan: string, id?: string) => {
  const metadata = new Metadata();
  metadata.set("x-understudy", JSON.stringify({ fault: plan }));
  if (id !== undefined) metadata.set("x-request-id", id);
  return metadata;
};

const unary = (plan: string) => client.call("ModelInfer", plain(), ordered(plan));

/** Streams four tokens. Returns the number of answers and the status at the end. */
function streamed(plan: string, options: CallOptions = {}): Promise<readonly [answers: number, code: string]> {
  let answers = 0;
  return new Promise((done) => {
    const call = client.stream(ordered(plan), options);
    call.on("data", () => answers++);
    call.on("error", () => {});
    call.on("status", ({ code }) => done([answers, status[code]]));
    call.write(encoded("ModelInferRequest", tokens("one two three four", 0)));
    call.end();
  });
}

test.each([
  ["G1,exhausted", "RESOURCE_EXHAUSTED"],
  ["G1@e0,aborted", "ABORTED"],
  ["G2", "UNKNOWN"],
  ["G2,bare", "UNKNOWN"],
  ["E10@e0+7,code=refused", "UNAVAILABLE"],
  ["E6@e0+7", "UNAVAILABLE"],
  ["E7@e0+7", "UNAVAILABLE"],
  ["A1", "UNAVAILABLE"],
  ["A4,401", "UNAUTHENTICATED"],
  ["Z1", "INVALID_ARGUMENT"],
])("ModelInfer, %s: %s", async (plan, code) => {
  expect(await unary(plan)).toMatchObject({ code });
});

test("a ModelInfer answer that is delayed, cut into frames, or sent after a GOAWAY is complete", async () => {
  for (const plan of ["T1@e0,20ms", "B6@e0,bytes=3", "E10@e0,goaway,code=none", "E3,for=20ms", "J1"])
    expect(await unary(plan)).toMatchObject({ model_name: "plain" });
  expect(await unary("G3@e0,packed")).not.toHaveProperty("model_name");
});

test.each([
  ["G1@e2,internal", [2, "INTERNAL"]],
  // This client does not notice that the message is incomplete.
  ["G3@e2,long", [2, "OK"]],
  ["E10@e2+9,code=internal", [2, "INTERNAL"]],
  ["T1@e2,30ms;T3@e3,rate=20000", [4, "OK"]],
  ["B6,bytes=30", [4, "OK"]],
  ["G1", [0, "UNAVAILABLE"]],
] as const)("ModelStreamInfer, %s", async (plan, seen) => {
  expect(await streamed(plan)).toEqual(seen);
});

test.each(["B6", "B6,gap=1ms,bytes=64", "T3,rate=20000", "T1@head+9,20ms", "B1@head+9"])(
  "ModelStreamInfer, %s: a head sent in parts is one header block, before the messages",
  async (plan) => {
    const one = new RawClient(server.grpc).greet();
    const fields = grpcHead("ModelStreamInfer", [["x-understudy", JSON.stringify({ fault: plan })]]);
    one.send(headers(1, false, fields), data(1, framed(encoded("ModelInferRequest", tokens("one two", 0))), true));
    await one.until("the end", () => one.frames.some(({ id, flags }) => id === 1 && (flags & FrameFlag.EndStream) > 0));
    const kinds = one.frames.filter(({ id }) => id === 1).map(({ type }) => type);
    one.close();
    expect([kinds[0], kinds.at(-1)]).toEqual([FrameType.Headers, FrameType.Headers]);
    expect(new Set(kinds.slice(1, -1))).toEqual(new Set([FrameType.Data]));
  },
);

test("a stalled stream: the client's deadline ends it, and no request stays pending", async () => {
  expect(await streamed("T1@e2,1h", { deadline: Date.now() + 300 })).toEqual([2, "DEADLINE_EXCEEDED"]);
  const page = async () => (await fetch(`${server.metrics}/metrics`)).text();
  await eventually(async () =>
    (await page()).includes('nv_inference_pending_request_count{model="tokens",version="1"} 0'),
  );
});

test("a fault that acted is counted and has a line in the truth log; a cut counts as a client that left", async () => {
  const count = async (fault: string) => {
    const page = await (await fetch(`${server.metrics}/metrics`)).text();
    return Number(new RegExp(`^understudy_faults_total{fault="${fault}"} (\\d+)$`, "m").exec(page)?.[1] ?? 0);
  };
  const before = await count("E6");
  await ask("E6@e2+9", "cut");
  await client.call("ModelInfer", plain(), ordered("G1", "ended"));
  expect(await count("E6")).toBe(before + 1);
  const lostBefore = await count("G2");
  const lost = ["lost", "bare", "odd"];
  for (const how of lost) await client.call("ModelInfer", plain(), ordered(`G2,${how}`, how));
  await client.call("ModelInfer", plain(), ordered("G2;E10@e0+7", "reset"));
  expect(await count("G2")).toBe(lostBefore + lost.length);
  await server.stop();
  const lines = readFileSync(truth, "utf8")
    .split("\n")
    .filter((line) => line.includes('"type":"fault"'))
    .map((line) => JSON.parse(line));
  expect(lines.find(({ key }) => key === "ended")).toMatchObject({ plan: "G1@head#seed=0,key=ended", end: "done" });
  for (const how of lost)
    expect(lines.find(({ key }) => key === how)).toMatchObject({ end: "done", acted: [[`G2@done,${how}`, 1]] });
  expect(lines.find(({ key }) => key === "reset")).toMatchObject({ acted: expect.arrayContaining([["G2@done", 0]]) });
  const line = lines.find(({ key }) => key === "cut");
  expect(line).toMatchObject({ plan: "E6@e2+9#seed=0,key=cut", end: "fin", acted: [["E6@e2+9", 1]] });
  expect(line.events).toMatchObject({ dropped: 0, whole: 2 });
});

test("an error in mid-stream counts as a failure of the executor's model and its ensemble, but not of vLLM's model or BLS", async () => {
  const shipped = await hostTriton(["--allow-request-orders=answers"]);
  const counts = async (model: string) => {
    const text = await (await fetch(`${shipped.metrics}/metrics`)).text();
    const of = (series: string) => Number(new RegExp(`^nv_inference_request_${series} (\\d+)$`, "m").exec(text)?.[1]);
    const reason = (name: string) => of(`failure{model="${model}",reason="${name}",version="1"}`);
    return [of(`success{model="${model}",version="1"}`), reason("BACKEND"), reason("OTHER")];
  };
  try {
    for (const model of ["ensemble", "tensorrt_llm_bls", "vllm_model"]) {
      const body = JSON.stringify({ text_input: "Hello", max_tokens: 50, stream: true });
      const headers = { "X-Understudy": JSON.stringify({ fault: "J1@e2" }) };
      const answer = await fetch(`${shipped.url}/v2/models/${model}/generate_stream`, {
        method: "POST",
        headers,
        body,
      });
      const events = (await answer.text()).split("\n\n").filter(Boolean);
      expect([events.length, events.at(-1)]).toEqual([3, expect.stringMatching(/^data: {"error":/)]);
    }
    await eventually(async () => (await counts("ensemble"))[2] === 2);
    expect(await counts("ensemble")).toEqual([0, 0, 2]);
    await eventually(async () => (await counts("tensorrt_llm_bls"))[0] === 1);
    expect(await counts("tensorrt_llm_bls")).toEqual([1, 0, 0]);
    expect(await counts("tensorrt_llm")).toEqual([0, 2, 0]);
    expect(await counts("vllm_model")).toEqual([1, 0, 0]);
  } finally {
    await shipped.stop(0);
  }
});

test("rules match a request's text and body over gRPC, /infer and /generate", async () => {
  const plan = join(folder, "rules.yaml");
  const rule = (match: object, fault: string) => ({ match, plan: fault });
  const faults = [
    rule({ path: { contains: "/v2/" }, user: { contains: "storm" } }, "A2,503"),
    rule({ user: { contains: "storm" } }, "G1,aborted"),
    rule({ body: { sleep_ms: 7 } }, "G1,exhausted"),
    rule({ body: { tag: "blue" } }, "G1,denied"),
  ];
  writeFileSync(plan, JSON.stringify({ faults }));
  const models = `--model-repository=${join(folder, "models")}`;
  const ruled = await hostTriton([models, `--fault-plan=${plan}`]);
  const other = new TritonClient(ruled.grpc);
  const post = async (path: string, body: object) =>
    (await fetch(`${ruled.url}/v2/models/plain/${path}`, { method: "POST", body: JSON.stringify(body) })).status;
  const streamedCode = (words: string, sleepMs: number) =>
    new Promise((done) => {
      const call = other.stream();
      call.on("data", () => {});
      call.on("error", () => {});
      call.on("status", ({ code }) => done(status[code]));
      call.end(encoded("ModelInferRequest", tokens(words, sleepMs)));
    });
  try {
    expect(await other.call("ModelInfer", plain("a storm comes"))).toMatchObject({ code: "ABORTED" });
    const listed = { contents: { bytes_contents: [Buffer.from("storm").toString("base64")] } };
    const inputs = [{ name: "text_input", datatype: "BYTES", shape: ["1"], ...listed }];
    expect(await other.call("ModelInfer", { model_name: "plain", inputs })).toMatchObject({ code: "ABORTED" });
    const tagged = { ...plain(), parameters: { tag: { string_param: "blue" } } };
    expect(await other.call("ModelInfer", tagged)).toMatchObject({ code: "PERMISSION_DENIED" });
    expect(await other.call("ModelInfer", plain("sun"))).toMatchObject({ model_name: "plain" });
    expect(await streamedCode("storm", 0)).toBe("ABORTED");
    expect(await streamedCode("sun", 7)).toBe("RESOURCE_EXHAUSTED");
    expect(await streamedCode("sun", 0)).toBe("OK");
    const text = (said: string) => ({ inputs: [{ ...INPUTS[0], data: [said] }] });
    expect([await post("infer", text("storm")), await post("infer", text("sun"))]).toEqual([503, 200]);
    expect([await post("generate", { text_input: "storm" }), await post("generate", { text_input: "sun" })]).toEqual([
      503, 200,
    ]);
  } finally {
    other.close();
    await ruled.stop(0);
  }
});

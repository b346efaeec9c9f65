/** Tests gRPC on a live server against difficult clients: bad input, floods, and clients that do not read or that leave. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { FIRST_WINDOW, FrameFlag, FrameType, Http2Code } from "../../src/wire/http2/frames.ts";
import { figure, sized } from "../size.ts";
import { frame, windowUpdate } from "../wire/http2/peer.ts";
import { startTriton, type TritonChild } from "./child.ts";
import {
  bytesText,
  data,
  decoded,
  encoded,
  framed,
  input,
  int32,
  plain,
  RawClient,
  TritonClient,
  tokens,
} from "./grpc-client.ts";

setDefaultTimeout(60_000);

const MODELS = new URL("models", import.meta.url).pathname;
let server: TritonChild;
let client: TritonClient;
beforeAll(async () => {
  const load = ["plain", "tokens", "types"].map((name) => `--load-model=${name}`);
  server = await startTriton([
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    ...load,
    "--load-time=0",
    "--unload-time=0",
  ]);
  client = new TritonClient(server.grpc);
});
afterAll(async () => {
  client.close();
  await server.stop("SIGKILL");
});

const HI = bytesText("HI");

/** Waits until no request is pending, and makes a call to check that the server still works. */
async function expectNothingPending(): Promise<void> {
  const pending = async () => {
    const page = await (await fetch(`${server.metrics}/metrics`)).text();
    const counts = [...page.matchAll(/^nv_inference_pending_request_count\{.*\} (\d+)$/gm)];
    expect(counts.length).toBeGreaterThan(0);
    return counts.some(([, count]) => count !== "0");
  };
  for (let turn = 0; (await pending()) && turn < 100; turn++) await Bun.sleep(20);
  expect(await pending()).toBe(false);
  expect((await client.call("ModelInfer", plain())).raw_output_contents).toEqual([HI]);
}

test("a message announced with 2 GB, bytes that are not a message, and no message at all", async () => {
  const one = new RawClient(server.grpc).greet();
  one.open(1, "ModelInfer").send(frame(FrameType.Data, 0, 1, Buffer.from([0, 127, 255, 255, 255])));
  one.open(3, "ModelInfer").send(data(3, framed(Buffer.from([255, 255])), true));
  one.open(5, "ModelInfer", true);
  one.open(9, "ModelInfer").send(data(9, framed(encoded("ModelInferRequest", plain())), true));
  await one.until(
    "all answers",
    () => one.of(FrameType.Data, 9).length > 0 && [1, 3, 5].every((id) => one.of(FrameType.Headers, id).length > 0),
  );
  const said = (id: number) => one.of(FrameType.Headers, id)[0]!.payload.toString("latin1");
  expect(said(1)).toContain("Received message larger than max (2147483647 vs. 536870912)");
  for (const id of [3, 5]) expect(said(id)).toContain("Unable to parse request");
  expect(one.closed).toBe(false);
  one.close();
  await expectNothingPending();
});

test("bytes that are not a message end the stream: requests before them are answered, requests after them are not", async () => {
  const one = new RawClient(server.grpc).greet();
  const request = framed(encoded("ModelInferRequest", plain()));
  one.open(1, "ModelStreamInfer").send(data(1, framed(Buffer.from([255, 255]))));
  one.open(3, "ModelStreamInfer").send(data(3, Buffer.concat([request, framed(Buffer.from([255, 255])), request])));
  const ended = (id: number) => one.of(FrameType.Headers, id).some(({ flags }) => (flags & FrameFlag.EndStream) !== 0);
  await one.until("both ends", () => ended(1) && ended(3));
  for (const id of [1, 3])
    expect(one.of(FrameType.Headers, id).at(-1)!.payload.toString("latin1")).not.toContain("parse");
  expect([1, 3].map((id) => one.of(FrameType.Data, id).length)).toEqual([0, 1]);
  one.close();
  await expectNothingPending();
});

test("bytes that are not HTTP/2 end only their own connection", async () => {
  const http = new RawClient(server.grpc).send(Buffer.from("GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"));
  const noise = new RawClient(server.grpc).greet().send(Buffer.alloc(100_000, 255));
  const half = new RawClient(server.grpc)
    .greet()
    .open(1, "ModelInfer")
    .send(Buffer.from([0, 0, 9, 0]));
  await Promise.all([http.until("the end", () => http.closed), noise.until("the end", () => noise.closed)]);
  half.close();
  await expectNothingPending();
});

test("a flood of streams: all are answered, those above the limit are refused, and none stays pending", async () => {
  const one = new RawClient(server.grpc).greet([4, 1_000_000]).send(windowUpdate(0, 2 ** 30));
  const request = framed(
    encoded("ModelInferRequest", {
      ...plain(),
      inputs: [input("text_input"), input("sleep_ms", "INT32")],
      raw_input_contents: [bytesText("x"), int32(0)],
    }),
  );
  const COUNT = 4000;
  for (let at = 0; at < COUNT; at++) one.open(2 * at + 1, "ModelInfer").send(data(2 * at + 1, request, true));
  await one.until(
    "all ends",
    () => one.of(FrameType.Headers).filter(({ flags }) => flags & FrameFlag.EndStream).length === COUNT,
  );
  expect(one.of(FrameType.Data).length).toBe(COUNT);
  // One more stream without an answer than may be open at a time.
  const idle = new RawClient(server.grpc).greet();
  for (let at = 0; at <= 16_384; at++) idle.open(2 * at + 1, "ModelStreamInfer");
  await idle.until("a refusal", () => idle.resetOf(2 * 16_384 + 1) !== undefined);
  expect([idle.resetOf(2 * 16_384 + 1), idle.closed]).toEqual([Http2Code.Refused, false]);
  idle.close();
  one.close();
  await expectNothingPending();
});

test("thousands of streams that are opened and reset at once leave the connection open", async () => {
  const one = new RawClient(server.grpc).greet();
  const request = framed(encoded("ModelInferRequest", tokens("a b c d", 5)));
  for (let at = 0; at < 3000; at++) {
    const id = 2 * at + 1;
    one
      .open(id, "ModelStreamInfer")
      .send(data(id, request), frame(FrameType.RstStream, 0, id, Buffer.from([0, 0, 0, 8])));
  }
  one.open(9001, "ServerLive").send(data(9001, framed(Buffer.alloc(0)), true));
  await one.until("an answer", () => one.of(FrameType.Data, 9001).length > 0);
  expect([one.closed, one.of(FrameType.GoAway).length]).toEqual([false, 0]);
  one.close();
  await expectNothingPending();
});

test("a reset between answers and a vanished client both end their requests", async () => {
  const one = new RawClient(server.grpc).greet();
  one.open(1, "ModelStreamInfer").send(data(1, framed(encoded("ModelInferRequest", tokens("a b c d e f g h", 500)))));
  await one.until("an answer", () => one.of(FrameType.Data, 1).length > 0);
  one.send(frame(FrameType.RstStream, 0, 1, Buffer.from([0, 0, 0, 8])));
  const other = new RawClient(server.grpc).greet();
  other.open(1, "ModelStreamInfer").send(data(1, framed(encoded("ModelInferRequest", tokens("a b c d e f g h", 500)))));
  await other.until("an answer", () => other.of(FrameType.Data, 1).length > 0);
  other.close();
  await expectNothingPending();
  expect(one.of(FrameType.Data, 1).length).toBeLessThan(3);
  one.close();
});

const MIB = 2 ** 20;
const identity = (bytes: number, fill: number) => ({
  model_name: "types",
  inputs: [{ name: "UINT8", datatype: "UINT8", shape: [`${bytes}`] }],
  raw_input_contents: [Buffer.alloc(bytes, fill).toString("base64")],
});

test("a client that does not read: its stream is reset when 16 MiB wait, others continue", async () => {
  const one = new RawClient(server.grpc).greet([4, 100]);
  one.open(1, "ModelStreamInfer");
  const request = framed(encoded("ModelInferRequest", identity(MIB, 1)));
  const bytes = data(1, Buffer.concat(Array.from({ length: 24 }, () => request)));
  const credit = () =>
    one.of(FrameType.WindowUpdate, 1).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), FIRST_WINDOW);
  // Sends no more than the flow-control window permits.
  for (let at = 0, sent = 0; at < bytes.length && one.resetOf(1) === undefined; ) {
    const length = bytes.readUIntBE(at, 3);
    await one.until("room, or the end", () => credit() >= sent + length || one.resetOf(1) !== undefined);
    one.send(bytes.subarray(at, at + 9 + length));
    at += 9 + length;
    sent += length;
  }
  await one.until("the reset", () => one.resetOf(1) !== undefined);
  expect([one.resetOf(1), one.closed]).toEqual([Http2Code.Calm, false]);
  one.close();
  await expectNothingPending();
});

/** In the whole run enough repetitions to find a stall that occurs once in a hundred. */
const TURNS = sized("triton", { sample: 2, whole: 200 });

test(`${TURNS} echoes of 64 MiB on one connection after other calls: none stalls`, async () => {
  const big = new TritonClient(server.grpc, undefined, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const request = encoded("ModelInferRequest", identity(64 * MIB, 5));
  for (let turn = 0; turn < TURNS; turn++) {
    const others = await Promise.all(Array.from({ length: 10 }, () => big.call("ModelInfer", plain())));
    for (const { raw_output_contents: made } of others) expect(made).toEqual([HI]);
    const { bytes, error } = await big.bytes("ModelInfer", request);
    expect(error).toBeNull();
    expect(bytes!.subarray(-64 * MIB).equals(request.subarray(-64 * MIB))).toBe(true);
  }
  figure("echoes64MiB", TURNS);
  big.close();
  await expectNothingPending();
}, 3_600_000);

test(`${TURNS} runs of 20,000 answers at full speed on one connection: none stalls`, async () => {
  const COUNT = 20_000;
  const names = ["max_tokens", "sleep_ms"].map((name) => input(name, "INT32"));
  const request = encoded("ModelInferRequest", {
    ...{ model_name: "tokens", inputs: [input("text_input"), ...names] },
    raw_input_contents: [bytesText("fourteen marks"), int32(COUNT), int32(0)],
  });
  for (let turn = 0; turn < TURNS; turn++) {
    const one = new TritonClient(server.grpc);
    const stream = one.stream(undefined, { deadline: Date.now() + 30_000 });
    let answers = 0;
    stream.on("data", () => answers++);
    stream.on("error", () => {});
    const ended = new Promise<number>((done) => stream.on("status", ({ code }) => done(code)));
    stream.write(request);
    stream.end();
    expect([await ended, answers]).toEqual([0, COUNT]);
    one.close();
  }
  figure("flatOutRuns", TURNS);
  await expectNothingPending();
}, 3_600_000);

test("several echoes of 64 MiB in parallel with other calls", async () => {
  const big = new TritonClient(server.grpc, undefined, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const json = { model_name: "types", inputs: [{ name: "UINT8", datatype: "UINT8", shape: [`${64 * MIB}`] }] };
  const body = Buffer.alloc(64 * MIB, 3).toString("base64");
  for (let turn = 0; turn < 2; turn++) {
    const [answer] = await Promise.all([
      big.call("ModelInfer", { ...json, raw_input_contents: [body] }),
      ...Array.from({ length: 20 }, () => big.call("ModelInfer", plain())),
    ]);
    expect((answer!.raw_output_contents as string[])[0]).toBe(body);
  }
  big.close();
  await expectNothingPending();
});

test("many requests of one stream, with errors between them, are answered in order if the model is not decoupled", async () => {
  const stream = client.stream();
  const answers: { error_message?: string; infer_response?: { id?: string } }[] = [];
  stream.on("data", (bytes: Buffer) => answers.push(decoded("ModelStreamInferResponse", bytes)));
  const ended = new Promise<number>((done) => stream.on("status", ({ code }) => done(code)));
  const COUNT = 3000;
  for (let at = 0; at < COUNT; at++) {
    const bad = at % 7 === 3 ? { model_version: "x" } : {};
    stream.write(encoded("ModelInferRequest", { ...plain(`${at}`), ...bad, id: `${at}` }));
  }
  stream.end();
  expect(await ended).toBe(0);
  expect(answers.map(({ infer_response }) => infer_response!.id)).toEqual(
    Array.from({ length: COUNT }, (_, at) => `${at}`),
  );
  expect(answers.filter(({ error_message }) => error_message !== undefined).length).toBe(Math.ceil((COUNT - 3) / 7));
  await expectNothingPending();
});

test("tensors in and out of system shared memory", async () => {
  const key = `/understudy-grpc-${process.pid}`;
  const path = `/dev/shm${key}`;
  writeFileSync(path, Buffer.concat([Buffer.from([1, 2, 3, 4]), Buffer.alloc(4)]));
  const old = await startTriton([
    "--triton-version=2.51",
    `--model-repository=${MODELS}`,
    "--model-control-mode=explicit",
    "--load-model=types",
  ]);
  const asked = new TritonClient(old.grpc);
  try {
    expect(await asked.call("SystemSharedMemoryRegister", { name: "r", key, byte_size: "8" })).toEqual({});
    expect(await asked.call("SystemSharedMemoryRegister", { name: "r", key, byte_size: "8" })).toEqual({
      code: "ALREADY_EXISTS",
      details: "shared memory region 'r' already in manager",
    });
    const at = (offset: number) => ({
      shared_memory_region: { string_param: "r" },
      shared_memory_offset: { int64_param: `${offset}` },
      shared_memory_byte_size: { int64_param: "4" },
    });
    const answer = await asked.call("ModelInfer", {
      model_name: "types",
      inputs: [{ name: "UINT8", datatype: "UINT8", shape: ["4"], parameters: at(0) }],
      outputs: [{ name: "UINT8_out", parameters: at(4) }],
    });
    expect(answer.raw_output_contents).toEqual([""]);
    expect([...readFileSync(path)]).toEqual([1, 2, 3, 4, 1, 2, 3, 4]);
    const large = { name: "UINT8", datatype: "UINT8", shape: ["6"] };
    const details =
      "shared memory size specified with the request for output 'UINT8_out' (4 bytes) should be at least 6 bytes to hold the results";
    expect(
      await asked.call("ModelInfer", {
        model_name: "types",
        inputs: [large],
        outputs: [{ name: "UINT8_out", parameters: at(4) }],
        raw_input_contents: [Buffer.alloc(6).toString("base64")],
      }),
    ).toEqual({ code: "INTERNAL", details });
    const place = { shared_memory_region: "r", shared_memory_byte_size: 4 };
    const refused = await fetch(`${old.url}/v2/models/types/infer`, {
      method: "POST",
      body: JSON.stringify({
        inputs: [{ ...large, shape: [6], data: [1, 2, 3, 4, 5, 6] }],
        outputs: [{ name: "UINT8_out", parameters: place }],
      }),
    });
    expect([refused.status, await refused.json()]).toEqual([500, { error: details }]);
    expect([...readFileSync(path)]).toEqual([1, 2, 3, 4, 1, 2, 3, 4]);
    expect(await asked.call("SystemSharedMemoryStatus", {})).toEqual({
      regions: { r: { name: "r", key, byte_size: "8" } },
    });
  } finally {
    asked.close();
    await old.stop("SIGKILL");
    rmSync(path);
  }
  expect(await client.call("SystemSharedMemoryRegister", { name: "r", key, byte_size: "8" })).toMatchObject({
    code: "UNIMPLEMENTED",
  });
});

test("2.73: unknown models, and loads that bring files", async () => {
  expect(await client.call("ModelInfer", { ...plain(), model_name: "nope" })).toEqual({
    code: "INVALID_ARGUMENT",
    details: "Request for unknown model: 'nope' is not found",
  });
  const config = JSON.stringify({
    backend: "python",
    max_batch_size: 0,
    input: [{ name: "a", data_type: "TYPE_INT32", dims: [1] }],
    output: [{ name: "b", data_type: "TYPE_INT32", dims: [1] }],
  });
  const file = { "file:1/model.py": { bytes_param: Buffer.from("pass").toString("base64") } };
  const wrong = { "file:1/model.py": { string_param: "pass" } };
  expect(
    await client.call("RepositoryModelLoad", {
      model_name: "brought",
      parameters: { config: { string_param: config }, ...wrong },
    }),
  ).toEqual({
    code: "INVALID_ARGUMENT",
    details: "invalid value type for load parameter 'file:1/model.py', expected bytes_param.",
  });
  expect(
    await client.call("RepositoryModelLoad", {
      model_name: "brought",
      parameters: { config: { string_param: config }, ...file },
    }),
  ).toEqual({});
  expect(await client.call("ModelReady", { name: "brought" })).toEqual({ ready: true });
  expect(
    await client.call("RepositoryModelUnload", {
      model_name: "brought",
      parameters: { unload_dependents: { int64_param: "1" } },
    }),
  ).toEqual({
    code: "INVALID_ARGUMENT",
    details: "invalid value type for 'unload_dependents' parameter, expected bool_param.",
  });
  expect(await client.call("RepositoryModelUnload", { model_name: "brought" })).toEqual({});
});

test("settings of a wrong type are refused with Triton's message", async () => {
  const log = (name: string, given: object) => client.call("LogSettings", { settings: { [name]: given } });
  expect(await log("log_info", { string_param: "x" })).toEqual({
    code: "INVALID_ARGUMENT",
    details: "expect boolean for 'log_info'",
  });
  expect(await log("log_verbose_level", { bool_param: true })).toEqual({
    code: "INVALID_ARGUMENT",
    details: "expect int32 for 'log_verbose_level'",
  });
  expect(await client.call("TraceSetting", { settings: { trace_rate: { value: ["1", "2"] } } })).toEqual({
    code: "INVALID_ARGUMENT",
    details: "expect only 1 value for 'trace_rate'",
  });
  expect(await client.call("TraceSetting", { settings: { trace_rate: {} } })).toMatchObject({
    settings: { trace_rate: { value: ["1000"] } },
  });
});

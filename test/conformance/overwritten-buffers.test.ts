/**
 * Compares the answers of servers in the debug mode that overwrites reused buffers with those of usual servers. Different
 * bytes show code that reads such a buffer too late. Covers whole answers and streams over HTTP/1 and HTTP/2, a client that
 * reads late, and gRPC.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { eventually, type Server, sample, serve } from "../server.ts";
import { startTriton, type TritonChild } from "../triton/child.ts";
import { encoded, TritonClient } from "../triton/grpc-client.ts";

setDefaultTimeout(60_000);

const MODE = { UNDERSTUDY_OVERWRITE_BUFFERS: "1" };
const FLAGS = ["--timing", "none", "--seed", "1", "--disable-uvicorn-access-log", "--max-model-len", "65536"];
/** Fills the socket's buffers with the events of so many tokens and their `logprobs`, so that the server must keep unsent bytes. */
const LONG_TOKENS = 20_000;

let servers: readonly Server[];
let tritons: readonly TritonChild[];
beforeAll(async () => {
  [servers, tritons] = await Promise.all([
    Promise.all([{}, MODE].map((env) => serve([...FLAGS, "--http2-port", "0"], env))),
    Promise.all([{}, MODE].map((env) => startTriton(["--seed=1"], env))),
  ]);
});
afterAll(() => Promise.all([...servers, ...tritons].map((server) => server.stop())));

const bodyOf = (stream: boolean, max_tokens: number) =>
  JSON.stringify({
    messages: [{ role: "user", content: "Hello" }],
    ...{ max_tokens, stream, ignore_eos: true, seed: 1, logprobs: true, top_logprobs: 5 },
  });
/** Removes values that differ between two requests. */
const steady = (text: string) =>
  text
    .replace(/chatcmpl-\w+/g, "ID")
    .replace(/"created":\d+/g, '"created":0')
    .replace(/^date: .*$/gim, "date");

/** Joins the chunks of an answer. Throws if a chunk has no size. */
function unchunked(answer: string): string {
  const parts: string[] = [];
  for (let at = answer.indexOf("\r\n\r\n") + 4; ; ) {
    const line = answer.slice(at, answer.indexOf("\r\n", at));
    if (!/^[0-9a-f]+$/.test(line)) throw new Error(`not the size of a chunk: ${JSON.stringify(line.slice(0, 20))}`);
    const size = Number.parseInt(line, 16);
    if (size === 0) return parts.join("");
    at += line.length + 2;
    parts.push(answer.slice(at, at + size));
    at += size + 2;
  }
}

/** Returns the text of a stream. Throws if an event is not JSON. The number of events depends on the pace of the client. */
function textOf(answer: string): string {
  const events = [...unchunked(answer).matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));
  return events.map(({ choices: [{ delta }] }) => delta.content).join("");
}

/** `late`: reads only after the engine has generated `LONG_TOKENS`. */
async function overHttp1(url: string, body: string, late = false): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  const parts: Buffer[] = [];
  socket.on("error", reject);
  socket.on("end", () => resolve(Buffer.concat(parts).toString("latin1")));
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json`;
  socket.write(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  const isDone = async () => (await sample(url, "vllm:generation_tokens_total")) >= LONG_TOKENS;
  if (late) await eventually(isDone, 5000);
  socket.on("data", (data: Buffer) => parts.push(data));
  return promise;
}

async function overHttp2({ output }: Server, body: string): Promise<string> {
  const [, port] = /HTTP\/2 +\S+:(\d+)/.exec(output())!;
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const call = session.request({
    ":method": "POST",
    ":path": "/v1/chat/completions",
    "content-type": "application/json",
  });
  call.end(body);
  const parts: Buffer[] = [];
  for await (const part of call) parts.push(part as Buffer);
  session.close();
  return Buffer.concat(parts).toString("latin1");
}

async function overGrpc({ grpc }: TritonChild): Promise<string[]> {
  const client = new TritonClient(grpc);
  const numbers = { shape: ["4"], datatype: "FP32", contents: { fp32_contents: [1, 2, 3, 4] } };
  const added = encoded("ModelInferRequest", {
    model_name: "add_sub",
    inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, ...numbers })),
  });
  const generated = encoded("ModelInferRequest", {
    model_name: "ensemble",
    inputs: [
      { name: "text_input", shape: ["1", "1"], datatype: "BYTES", contents: { bytes_contents: [btoa("Hello")] } },
      { name: "max_tokens", shape: ["1", "1"], datatype: "INT32", contents: { int_contents: [20] } },
      { name: "stream", shape: ["1", "1"], datatype: "BOOL", contents: { bool_contents: [true] } },
    ],
  });
  const unary = await client.bytes("ModelInfer", added);
  const stream = client.stream();
  const responses: Buffer[] = [];
  stream.on("data", (data: Buffer) => responses.push(data));
  const ended = new Promise((resolve) => stream.on("end", resolve));
  stream.write(generated);
  stream.end();
  await ended;
  client.close();
  expect(responses.length).toBeGreaterThan(10);
  return [unary.error ?? unary.bytes!.toString("hex"), ...responses.map((bytes) => bytes.toString("hex"))];
}

test.each([
  ["a whole answer", false],
  ["a stream", true],
] as const)("%s over HTTP/1 has the same bytes", async (_, stream) => {
  const [usual, overwritten] = await Promise.all(
    servers.map(async ({ url }) => steady(await overHttp1(url, bodyOf(stream, 50)))),
  );
  expect(usual).toContain("HTTP/1.1 200 OK");
  expect(overwritten).toBe(usual!);
});

test("a stream whose client reads late has the same text", async () => {
  const [usual, overwritten] = await Promise.all(
    servers.map(async ({ url }) => textOf(await overHttp1(url, bodyOf(true, LONG_TOKENS), true))),
  );
  expect(usual!.length).toBeGreaterThan(LONG_TOKENS);
  expect(overwritten === usual).toBe(true);
});

test("a stream over HTTP/2 has the same bytes", async () => {
  const [usual, overwritten] = await Promise.all(
    servers.map(async (server) => steady(await overHttp2(server, bodyOf(true, 50)))),
  );
  expect(usual).toContain("data: [DONE]");
  expect(overwritten).toBe(usual!);
});

test("an inference and a stream over gRPC have the same bytes", async () => {
  const [usual, overwritten] = await Promise.all(tritons.map(overGrpc));
  expect(usual![0]).toMatch(/^[0-9a-f]+$/);
  expect(overwritten).toEqual(usual!);
});

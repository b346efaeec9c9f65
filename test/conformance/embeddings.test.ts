/**
 * Checks that `/v1/embeddings` returns vectors in OpenAI's form, the same for the same input, and refuses like other routes.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { type ServerHandle, sample, serve } from "../server.ts";

setDefaultTimeout(60_000);

let server: HostedServer;
beforeAll(async () => {
  const flags = ["--timing", "none", "--served-model-name", "m", "--max-model-len", "64", "--api-key", "k"];
  server = await hosted([...flags, "--embedding-dimensions", "16"]);
});
afterAll(() => server.stop());

interface Body {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly data: readonly { readonly index: number; readonly object: string; readonly embedding: number[] | string }[];
  readonly usage: object;
  readonly error: { readonly message: string; readonly type: string; readonly param: string | null };
}
function post(body: object | string, { url }: ServerHandle = server, headers: Record<string, string> = {}) {
  return fetch(`${url}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer k", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}
const embed = async (body: object, at?: ServerHandle) => (await (await post(body, at)).json()) as Body;
const vectors = async (body: object, at?: ServerHandle) =>
  (await embed(body, at)).data.map(({ embedding }) => embedding);
const numbers = async (body: object, at?: ServerHandle) => (await vectors(body, at)) as number[][];
const length = (vector: readonly number[]) => Math.hypot(...vector);

test("an answer has OpenAI's form", async () => {
  const answer = await post({ model: "m", input: ["Hello", "Hello world"] }, server, { "x-request-id": "r" });
  expect(answer.status).toBe(200);
  const body = (await answer.json()) as Body;
  expect(body).toEqual({
    id: "embd-r",
    object: "list",
    created: expect.any(Number),
    model: "m",
    data: [
      { index: 0, object: "embedding", embedding: expect.any(Array) },
      { index: 1, object: "embedding", embedding: expect.any(Array) },
    ],
    usage: {
      prompt_tokens: 3,
      total_tokens: 3,
      completion_tokens: 0,
      prompt_tokens_details: null,
      completion_tokens_details: null,
    },
    error: undefined,
  } as unknown as Body);
});

test("vectors have length 1 and the requested number of dimensions", async () => {
  for (const [more, dimensions] of [
    [{}, 16],
    [{ dimensions: null }, 16],
    [{ dimensions: 3000 }, 3000],
    [{ dimensions: 1 }, 1],
  ] as const) {
    const [vector] = await numbers({ input: "Hello", ...more });
    expect(vector).toHaveLength(dimensions);
    expect(length(vector!)).toBeCloseTo(1, 6);
  }
});

test("equal input has an equal vector, as text or ids, alone or in a batch; other input has a different one", async () => {
  const [text] = await numbers({ input: "Hello world" });
  // The ids of the text in o200k.
  expect(await numbers({ input: [13225, 2375] })).toEqual([text!]);
  const several = await numbers({ input: [[13225], [13225, 2375]] });
  expect(several[1]).toEqual(text!);
  expect(several[0]).not.toEqual(text!);
  const other = await hosted(["--timing", "none", "--embedding-dimensions", "16", "--seed", "7"]);
  expect(await numbers({ input: "Hello world" }, other)).not.toEqual([text!]);
  await other.stop();
  const cosine = several[0]!.reduce((sum, value, at) => sum + value * text![at]!, 0);
  expect(Math.abs(cosine)).toBeLessThan(0.9);
});

test("base64 has the same numbers as little-endian 32-bit floats", async () => {
  const [plain] = await numbers({ input: "Hello" });
  const [packed] = (await vectors({ input: "Hello", encoding_format: "base64" })) as string[];
  const bytes = Buffer.from(packed!, "base64");
  expect(Array.from({ length: 16 }, (_, at) => bytes.readFloatLE(4 * at))).toEqual(plain!);
  expect(bytes).toHaveLength(64);
});

describe("refused", () => {
  test.each<[string, object | string, number, string]>([
    ["no input", { model: "m" }, 400, "Field required"],
    ["no texts", { input: [] }, 400, "You must pass at least one prompt"],
    ["an empty text", { input: ["a", ""] }, 400, "The decoder prompt cannot be empty"],
    ["no ids", { input: [[]] }, 400, "The decoder prompt cannot be empty"],
    ["a number", { input: 5 }, 400, "Input should be a valid"],
    ["an id outside the vocabulary", { input: [201_088] }, 400, "Token id 201088 is out of vocabulary"],
    ["an id of more than 32 bits", { input: [[2 ** 40]] }, 400, `Token id ${2 ** 40} is out of vocabulary`],
    ["a text that is too long", { input: "word ".repeat(65) }, 400, "maximum context length is 64 tokens"],
    ["ids that are too long", { input: Array(66).fill(5) }, 400, "contains 66 input tokens"],
    ["no dimensions", { input: "a", dimensions: 0 }, 400, "Dimensions must be greater than 0"],
    ["dimensions that are text", { input: "a", dimensions: "many" }, 400, "valid integer"],
    ["another form", { input: "a", encoding_format: "bytes" }, 400, "Input should be 'float' or 'base64'"],
    ["another model", { input: "a", model: "x" }, 404, "The model `x` does not exist"],
    ["no JSON", "{", 400, "JSON decode error"],
  ])("the request is refused: %s", async (_, body, status, message) => {
    const answer = await post(body);
    expect(answer.status).toBe(status);
    expect(((await answer.json()) as Body).error.message).toContain(message);
  });

  test("too many inputs, dimensions or numbers are refused", async () => {
    const message = async (body: object) => (await embed(body)).error.message;
    expect(await message({ input: Array(2049).fill("a") })).toContain("At most 2048 inputs");
    expect(await message({ input: "a", dimensions: 65_537 })).toContain("At most 65536 dimensions");
    const most = { input: Array(16).fill("a"), dimensions: 65_536, encoding_format: "base64" };
    expect(await vectors(most)).toHaveLength(16);
    expect(await message({ ...most, input: Array(17).fill("a") })).toContain("At most 1048576 numbers");
  });

  test("requests without the key, with another method or without the option are refused", async () => {
    expect((await post({ input: "a" }, server, { authorization: "" })).status).toBe(401);
    const headers = { authorization: "Bearer k" };
    expect((await fetch(`${server.url}/v1/embeddings`, { headers })).status).toBe(405);
    const without = await hosted(["--timing", "none"]);
    expect((await post({ input: "a" }, without)).status).toBe(404);
    await without.stop();
  });
});

test("HTTP requests are counted, and no request reaches the engine", async () => {
  const of = (series: string) => sample(server.url, series);
  const before = await of('http_requests_total{handler="/v1/embeddings",method="POST",status="2xx"}');
  await post({ input: "Hello" });
  expect(await of('http_requests_total{handler="/v1/embeddings",method="POST",status="2xx"}')).toBe(before + 1);
  expect(await of("vllm:prompt_tokens_total{")).toBe(0);
});

test("--compat llm-d-inference-sim: vectors have 384 dimensions, or the number of its key", async () => {
  const flags = ["--compat", "llm-d-inference-sim", "--host", "127.0.0.1", "--model", "m"];
  const plain = await hosted(flags);
  expect((await numbers({ input: "Hello" }, plain))[0]).toHaveLength(384);
  await plain.stop();
  const sized = await serve([...flags, "--default-embedding-dimensions", "12"]);
  expect((await numbers({ input: "Hello" }, sized))[0]).toHaveLength(12);
  expect(sized.output()).not.toContain("not supported");
  await sized.stop();
});

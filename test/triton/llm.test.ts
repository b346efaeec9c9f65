/** Tests the answers of LLM models: the vLLM backend over `generate` and `generate_stream`. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atOnce } from "../../src/base/pieces.ts";
import type { LlmDeps } from "../../src/servers/triton/backends/around.ts";
import type { LlmCounts } from "../../src/servers/triton/backends/counts.ts";
import { vllmBehaviour } from "../../src/servers/triton/backends/vllm.ts";
import { samplingOf, samplingParametersOf } from "../../src/servers/triton/backends/vllm-sampling.ts";
import type { ModelHost, ModelRequest } from "../../src/servers/triton/behaviours/behaviour.ts";
import { normalized } from "../../src/servers/triton/model-config/normalize.ts";
import { FrameType } from "../../src/wire/http2/frames.ts";
import { eventually } from "../server.ts";
import { windowUpdate } from "../wire/http2/peer.ts";
import { startTriton, type TritonChild } from "./child.ts";
import { bytesText, data, decoded, encoded, framed, input, RawClient } from "./grpc-client.ts";

let child: TritonChild;
beforeAll(async () => {
  const version = join(own, "adapted", "1");
  mkdirSync(version, { recursive: true });
  writeFileSync(join(own, "adapted", "config.pbtxt"), 'backend: "vllm"');
  writeFileSync(join(version, "model.json"), '{"enable_lora": "true"}');
  writeFileSync(join(version, "multi_lora.json"), '{"sql": "/adapters/sql", "chat": "/adapters/chat"}');
  const repositories = [`--model-repository=${shipped}`, `--model-repository=${own}`];
  child = await startTriton(["--seed=7", "--image-tokens=3", "--embedding-dimensions=4", ...repositories]);
});
afterAll(async () => {
  await child.stop("SIGKILL");
  rmSync(own, { recursive: true });
});
const own = mkdtempSync(join(tmpdir(), "vllm-models-"));
const shipped = new URL("../../src/servers/triton/shipped", import.meta.url).pathname;

const ask = (path: string, body: object, model = "vllm_model") =>
  fetch(`${child.url}/v2/models/${model}/${path}`, { method: "POST", body: JSON.stringify(body) });
const PARAMETERS = '{"max_tokens":"5","ignore_eos":true,"temperature":0}';

test("a stream has one response per token, and their texts together are the whole answer after its prompt", async () => {
  const asked = { text_input: "Hello", sampling_parameters: PARAMETERS };
  const wishes = { return_finish_reason: true, return_num_input_tokens: true, return_num_output_tokens: true };
  const streamed = await ask("generate_stream", { ...asked, ...wishes, stream: true });
  expect(streamed.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const events = (await streamed.text()).trim().split("\n\n");
  const pieces = events.map((event) => JSON.parse(event.slice("data: ".length)));
  expect(pieces.map((piece) => piece.finish_reason)).toEqual(["None", "None", "None", "None", "length"]);
  expect(pieces.map((piece) => piece.num_output_tokens)).toEqual([1, 1, 1, 1, 1]);
  expect(pieces[0].num_input_tokens).toBeGreaterThan(0);
  const whole = await (await ask("generate", asked)).json();
  const text = `Hello${pieces.map((piece) => piece.text_output).join("")}`;
  expect(whole).toEqual({ model_name: "vllm_model", model_version: "1", text_output: text });
});

test("a folder that names only a backend gets the backend's tensors, like the shipped one", async () => {
  const config = (await (await fetch(`${child.url}/v2/models/vllm_model/config`)).json()) as {
    readonly input: readonly { readonly name: string }[];
  };
  expect(config.input.map(({ name }) => name)).toEqual([
    ...["text_input", "image", "stream", "sampling_parameters", "exclude_input_in_output", "return_finish_reason"],
    ...["return_cumulative_logprob", "return_logprobs", "return_num_input_tokens", "return_num_output_tokens"],
    "embedding_request",
  ]);
  expect(config).toMatchObject({ max_batch_size: 0, model_transaction_policy: { decoupled: true } });
  const given = { backend: "vllm", input: [{ name: "text_input", data_type: "TYPE_STRING", dims: [1] }] };
  const again = atOnce(normalized(given, "mine", []));
  expect(again.input).toHaveLength(11);
  expect(again.output).toHaveLength(6);
});

test("request parameters replace the tensor of parameters, and errors are the backend's", async () => {
  const answer = await (
    await ask("generate", { text_input: "x", max_tokens: 3, exclude_input_in_output: true })
  ).json();
  expect(answer).toEqual({ model_name: "vllm_model", model_version: "1", text_output: expect.any(String) });
  const refused = await ask("generate_stream", { text_input: "x", stream: true, exclude_input_in_output: false });
  expect([refused.status, await refused.text()]).toEqual([
    400,
    'data: {"error":"Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed."}\n\n',
  ]);
});

interface Token {
  readonly logprob: number;
  readonly rank: number;
  readonly decoded_token: string;
}
interface GeneratedText {
  readonly text_output: string;
  readonly logprobs: string;
  readonly cumulative_logprob: number;
  readonly num_input_tokens: number;
  readonly error?: string;
}
const generated = async (body: object, model?: string) =>
  (await (await ask("generate", body, model)).json()) as GeneratedText;

test("log probabilities are a JSON text per choice, several answers are several elements", async () => {
  const wishes = { return_logprobs: true, return_cumulative_logprob: true, return_num_output_tokens: true };
  const asked = { text_input: "Hello", max_tokens: 3, seed: 5, exclude_input_in_output: true, ...wishes };
  const one = await generated({ ...asked, logprobs: 2 });
  expect([...one.logprobs.matchAll(/"rank": (\d)/g)].map(([, rank]) => rank).join("")).toBe("121212");
  const sampled = (JSON.parse(one.logprobs) as Record<string, Token>[]).map(
    (token) => Object.values(token).find(({ rank }) => rank === 1)!,
  );
  expect(sampled.map((token) => token.decoded_token).join("")).toBe(one.text_output);
  expect(one.cumulative_logprob).toBeCloseTo(
    sampled.reduce((all, token) => all + token.logprob, 0),
    5,
  );
  const two = await generated({ ...asked, n: 2, logprobs: "1" });
  expect(two).toMatchObject({ text_output: [one.text_output, expect.any(String)], num_output_tokens: [3, 3] });
  expect(two.text_output[1]).not.toBe(one.text_output);
  const pieces = (await (await ask("generate_stream", { ...asked, n: 2, stream: true })).text()).trim().split("\n\n");
  const texts = pieces.map((piece) => JSON.parse(piece.slice(6).replace(/NaN/g, "null")).text_output as string[]);
  expect([0, 1].map((at) => texts.map((all) => all[at]).join(""))).toEqual([...two.text_output]);
});

test("adapters come from multi_lora.json, images count as tokens, embeddings are JSON in the text", async () => {
  const asked = { text_input: "Hello", max_tokens: 2, exclude_input_in_output: true };
  const adapted = async (model: string, name: string) => (await generated({ ...asked, lora_name: name }, model)).error;
  expect(await adapted("adapted", "chat")).toBeUndefined();
  expect(await adapted("adapted", "nope")).toBe("LoRA nope is not supported, we currently support ['sql', 'chat']");
  expect(await adapted("vllm_model", "sql")).toBe("LoRA feature is not enabled.");
  const seen = await generated({ ...asked, image: ["aGk=", "aG8="], return_num_input_tokens: true });
  expect(seen.num_input_tokens).toBe(7);
  const vector = await generated({ text_input: "", embedding_request: '{"input":"Hello"}' });
  expect(JSON.parse(vector.text_output)).toHaveLength(4);
});

test("unreadable adapter files fail the whole batch before any request begins", async () => {
  const folder = mkdtempSync(join(own, "broken-"));
  writeFileSync(join(folder, "model.json"), '{"enable_lora": "true"}');
  writeFileSync(join(folder, "multi_lora.json"), "{");
  const sent: unknown[] = [];
  const request = (parameters: string) => ({ inputs: new Map(), parameters, send: (one: unknown) => sent.push(one) });
  const batch = [request("{}"), request('{"lora_name": "sql"}')] as unknown as ModelRequest[];
  const behaviour = vllmBehaviour({} as LlmDeps, {} as LlmCounts);
  expect(() => behaviour.execute(batch, { folder } as ModelHost)).toThrow(SyntaxError);
  await Bun.sleep(1);
  expect(sent).toEqual([]);
});

test.each([
  [{ text_input: "" }, "The decoder prompt cannot be empty"],
  [
    { logprobs: 30 },
    "Requested sample logprobs of 30, which is greater than max allowed: 20 (parameter=logprobs, value=30)",
  ],
])("%p is refused like by vLLM's engine", async (more, why) => {
  const refused = await ask("generate", { text_input: "x", ...more });
  expect(await refused.json()).toEqual({ error: `Error generating stream: ${why}` });
});

const WRONG: readonly (readonly [string, string])[] = [
  ['{"max_tokens": 0}', "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"],
  ['{"min_tokens": -1}', "min_tokens must be greater than or equal to 0, got -1."],
  ['{"min_tokens": "9", "max_tokens": 3.7}', "min_tokens must be less than or equal to max_tokens=3, got 9."],
  ['{"n": 2, "temperature": 0}', "n must be 1 when using greedy sampling, got 2."],
  [
    '{"n": 2147483648}',
    "n must be at most 16384, got 2147483648. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable.",
  ],
  ['{"temperature": 3}', "temperature must be in [0, 2], got 3. (parameter=temperature, value=3)"],
  ['{"temperature": NaN}', "temperature must be a finite number, got NaN. (parameter=temperature, value=NaN)"],
  ['{"top_p": "0"}', "top_p must be in (0, 1], got 0. (parameter=top_p, value=0)"],
  ['{"top_k": -2}', "top_k must be 0 (disable), or at least 1, got -2."],
  ['{"presence_penalty": -3}', "presence_penalty must be in [-2, 2], got -3."],
  ['{"logprobs": -2}', "logprobs must be non-negative or -1, got -2. (parameter=logprobs, value=-2)"],
  ['{"stop": ["a", ""]}', "stop cannot contain an empty string."],
  ['{"n": "two"}', "int() does not take 'two'"],
  ['{"seed": null}', "int() does not take null"],
  ['{"temperature": [1]}', "float() does not take [1]"],
  ['{"max_token": 5}', "Unexpected keyword argument 'max_token'"],
  ['{"guided_decoding": "{}"}', "Unexpected keyword argument 'guided_decoding'"],
  ['{"structured_outputs": {"choice": ["a"]}}', "the JSON object must be str, bytes or bytearray, not dict"],
];

test.each(WRONG)(
  "sampling parameters %s: 2.51 reports the error, 2.73 fails because it lost them",
  async (text, why) => {
    const lines: string[] = [];
    const log = (line: string) => lines.push(line);
    const request = { inputs: new Map(), parameters: text } as unknown as ModelRequest;
    const said = samplingParametersOf(request);
    expect(() => samplingOf(said, "m", { losesSamplingErrors: false, log })).toThrow(why);
    expect(lines).toEqual([]);
    const none = "'NoneType' object has no attribute 'lora_name'";
    expect(() => samplingOf(said, "m", { losesSamplingErrors: true, log })).toThrow(none);
    expect(lines).toEqual([`m: sampling parameters are refused: ${why}`]);
  },
);

test("invalid sampling parameters fail like in the real backend; the log gives the reason", async () => {
  const asked = (text: string) => ask("generate", { text_input: "x", sampling_parameters: text });
  const none = await asked('{"max_token": 5}');
  expect([none.status, await none.json()]).toEqual([
    400,
    { error: "Error generating stream: 'NoneType' object has no attribute 'lora_name'" },
  ]);
  await eventually(() =>
    child.output().includes("vllm_model: sampling parameters are refused: Unexpected keyword argument 'max_token'\n"),
  );
  const broken = async (text: string) => ((await (await asked(text)).json()) as { error: string }).error;
  const failed = "Failed to process the request(s) for model instance 'vllm_model_0_0', message: ";
  expect(await broken('{"n":')).toBe(`${failed}JSONDecodeError: Expecting value: line 1 column 6 (char 5)`);
  expect(await broken("[]")).toBe(`${failed}TypeError: pop expected at most 1 argument, got 2`);
  expect(await broken("7")).toBe(`${failed}AttributeError: 'int' object has no attribute 'pop'`);
});

test("values are converted like by the backend", () => {
  const of = (text: string) => {
    const said = samplingParametersOf({ inputs: new Map(), parameters: text } as unknown as ModelRequest);
    return samplingOf(said, "m", { losesSamplingErrors: true, log: () => {} });
  };
  expect(
    of('{"n": " 2 ", "max_tokens": 7.9, "temperature": "1e-1", "ignore_eos": "false", "logprobs": true}'),
  ).toMatchObject({ n: 2, limits: { maxTokens: 7, ignoreEos: true }, temperature: 0.1, logprobs: 1 });
  expect(of('{"seed": -1, "stop": "x", "bad_words": null}')).toMatchObject({ seed: null, stop: ["x"], badWords: [] });
  const structure = JSON.stringify({ structured_outputs: JSON.stringify({ regex: "a+", json: null }) });
  expect(of(structure).structure).toEqual({ kind: "regex", pattern: "a+" });
});

test("tokens that native code sends are counted one by one, also during the stream", async () => {
  const count = async (series: string) => {
    const page = await (await fetch(`${child.metrics}/metrics`)).text();
    return Number(new RegExp(`^vllm:${series}\\{model="vllm_model",version="1"\\} (\\S+)$`, "m").exec(page)![1]);
  };
  const [tokens, gaps] = [await count("generation_tokens_total"), await count("time_per_output_token_seconds_count")];
  const asked = { text_input: "x", stream: true, max_tokens: 60, ignore_eos: true, seed: 9 };
  const stream = ask("generate_stream", asked);
  while ((await count("generation_tokens_total")) < tokens + 5) await Bun.sleep(1);
  const text = await (await stream).text();
  expect(await count("generation_tokens_total")).toBe(tokens + 60);
  expect(await count("time_per_output_token_seconds_count")).toBe(gaps + 59);
  const pieces = text
    .trim()
    .split("\n\n")
    .map((event) => JSON.parse(event.slice("data: ".length)).text_output);
  expect(pieces).toHaveLength(60);
  const whole = await generated({ ...asked, stream: false, exclude_input_in_output: true });
  expect(pieces.join("")).toBe(whole.text_output);
});

test("over gRPC each token is a response, and together they are the whole answer, also after a full window", async () => {
  const said = '"a\\"\t\u0007é 漢字 🦙🦙 <b>\n'.repeat(3);
  const parameters = { structured_outputs: JSON.stringify({ choice: [said] }), max_tokens: 200, seed: 5 };
  const request = encoded("ModelInferRequest", {
    model_name: "vllm_model",
    id: "one",
    inputs: [input("text_input"), input("stream", "BOOL"), input("sampling_parameters")],
    raw_input_contents: [bytesText("x"), Buffer.of(1).toString("base64"), bytesText(JSON.stringify(parameters))],
  });
  for (const windowBytes of [1_000_000, 400]) {
    const client = new RawClient(child.grpc).greet([4, windowBytes]);
    client.open(1, "ModelStreamInfer").send(data(1, framed(request), true));
    const bytes = () => Buffer.concat(client.of(FrameType.Data, 1).map(({ payload }) => payload));
    await client.until("as much as the window lets through", () => bytes().length >= 400);
    await Bun.sleep(100);
    client.send(windowUpdate(1, 1_000_000));
    await client.until("the end", () => client.of(FrameType.Headers, 1).length === 2);
    client.close();
    const come: Response[] = [];
    const all = bytes();
    for (let at = 0; at < all.length; at += 5 + all.readUInt32BE(at + 1)) {
      const message = all.subarray(at + 5, at + 5 + all.readUInt32BE(at + 1));
      come.push(decoded("ModelStreamInferResponse", message).infer_response as Response);
    }
    expect(come.length).toBeGreaterThan(30);
    for (const [at, { model_name, model_version, id, parameters: more, outputs }] of come.entries()) {
      expect([model_name, model_version, id]).toEqual(["vllm_model", "1", "one"]);
      expect(more).toEqual({ triton_final_response: { bool_param: at === come.length - 1 } });
      expect(outputs).toEqual([{ name: "text_output", datatype: "BYTES", shape: ["1"] }]);
    }
    const texts = come.map(({ raw_output_contents: [one] }) => Buffer.from(one, "base64"));
    expect(texts.every((text) => text.readUInt32LE() === text.length - 4)).toBe(true);
    expect(Buffer.concat(texts.map((text) => text.subarray(4))).toString()).toBe(said);
  }
});
interface Response {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly parameters: object;
  readonly outputs: readonly object[];
  readonly raw_output_contents: readonly [string];
}

test("the lateness of steps is on the metrics page, as for vLLM", async () => {
  const count = async (what: string) => {
    const page = await (await fetch(`${child.metrics}/metrics`)).text();
    return Number(new RegExp(`^understudy_step_${what}_lateness_seconds_count (\\d+)$`, "m").exec(page)?.[1] ?? 0);
  };
  const [starts, ends] = [await count("start"), await count("end")];
  await (await ask("generate_stream", { text_input: "x", stream: true, max_tokens: 20, ignore_eos: true })).text();
  expect(await count("start")).toBeGreaterThanOrEqual(starts + 20);
  expect(await count("end")).toBeGreaterThanOrEqual(ends + 20);
});

test("a client that leaves ends its generation, so an orderly end waits for nothing", async () => {
  const leaving = new AbortController();
  const body = JSON.stringify({ text_input: "x", stream: true, max_tokens: 100_000, ignore_eos: true });
  const url = `${child.url}/v2/models/vllm_model/generate_stream`;
  const stream = await fetch(url, { method: "POST", body, signal: leaving.signal });
  expect(stream.status).toBe(200);
  leaving.abort();
  expect(await child.stop()).toBe(0);
});

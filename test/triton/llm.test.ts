/** What do LLM models answer? The vLLM backend's shapes, over `generate` and `generate_stream`. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { normalized } from "../../src/triton/config/normalize.ts";
import { startTriton, type TritonChild } from "./child.ts";

let child: TritonChild;
beforeAll(async () => {
  child = await startTriton(["--seed=7"]);
});
afterAll(() => child.stop("SIGKILL"));

const ask = (path: string, body: object) =>
  fetch(`${child.url}/v2/models/vllm_model/${path}`, { method: "POST", body: JSON.stringify(body) });
const PARAMETERS = '{"max_tokens":"5","ignore_eos":true,"temperature":0}';

test("a stream has one response per token, whose texts are the whole answer behind its prompt", async () => {
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

test("a folder that names a backend and nothing else has the backend's tensors, as the shipped one", async () => {
  const config = (await (await fetch(`${child.url}/v2/models/vllm_model/config`)).json()) as {
    readonly input: readonly { readonly name: string }[];
  };
  expect(config.input.map(({ name }) => name)).toEqual([
    ...["text_input", "stream", "sampling_parameters", "exclude_input_in_output", "return_finish_reason"],
    ...["return_num_input_tokens", "return_num_output_tokens"],
  ]);
  expect(config).toMatchObject({ max_batch_size: 0, model_transaction_policy: { decoupled: true } });
  const again = normalized(
    { backend: "vllm", input: [{ name: "text_input", data_type: "TYPE_STRING", dims: [1] }] },
    "mine",
    [],
  );
  expect(again.input).toHaveLength(7);
  expect(again.output).toHaveLength(4);
});

test("parameters of the request stand in for the tensor, errors are the backend's", async () => {
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

test.each([
  [{ max_tokens: 0 }, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"],
  [{ min_tokens: -1 }, "min_tokens must be greater than or equal to 0, got -1."],
  [{ min_tokens: 9, max_tokens: 3 }, "min_tokens must be less than or equal to max_tokens=3, got 9."],
  [{ text_input: "" }, "The decoder prompt cannot be empty"],
])("%p is refused as vLLM refuses it", async (more, why) => {
  const refused = await ask("generate", { text_input: "x", ...more });
  expect(await refused.json()).toEqual({ error: `Error generating stream: ${why}` });
});

test("a client that leaves ends its generation: an orderly end waits for nothing", async () => {
  const leaving = new AbortController();
  const body = JSON.stringify({ text_input: "x", stream: true, max_tokens: 100_000, ignore_eos: true });
  const url = `${child.url}/v2/models/vllm_model/generate_stream`;
  const stream = await fetch(url, { method: "POST", body, signal: leaving.signal });
  expect(stream.status).toBe(200);
  leaving.abort();
  expect(await child.stop()).toBe(0);
});

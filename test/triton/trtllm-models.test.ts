/**
 * Tests TensorRT-LLM's models over HTTP: the classic ensemble and its parts, BLS, and the LLM API. They answer as their
 * repository defines.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadMetrics } from "../../src/servers/triton/http/load-metrics.ts";
import { hostTriton, type TritonHosted } from "./child.ts";
import { bytesText, decoded, encoded, int32, TritonClient } from "./grpc-client.ts";

const SHIPPED = new URL("../../src/servers/triton/shipped", import.meta.url).pathname;
let child: TritonHosted;
beforeAll(async () => {
  child = await hostTriton([
    "--seed=7",
    "--capacity-scheduler-policy=GUARANTEED_NO_EVICT",
    "--output-tokens=constant:40",
  ]);
});
afterAll(() => child.stop(0));

type Answer = Record<string, string | number | boolean | number[]>;
const post = (model: string, path: string, body: object) =>
  fetch(`${child.url}/v2/models/${model}/${path}`, { method: "POST", body: JSON.stringify(body) });
const generate = async (model: string, body: object) => (await (await post(model, "generate", body)).json()) as Answer;

async function stream(model: string, body: object): Promise<Answer[]> {
  const text = await (await post(model, "generate_stream", body)).text();
  return text
    .trim()
    .split("\n\n")
    .map((event) => JSON.parse(event.slice("data: ".length)));
}
const joined = (events: readonly Answer[]) => events.map((one) => one.text_output).join("");

interface Statistics {
  readonly execution_count: number;
  readonly inference_stats: { readonly success: { readonly count: number }; readonly fail: { readonly count: number } };
}
async function statistics(model: string): Promise<Statistics> {
  const { model_stats } = (await (await fetch(`${child.url}/v2/models/${model}/stats`)).json()) as {
    model_stats: Statistics[];
  };
  return model_stats[0]!;
}
const successes = async (model: string) => (await statistics(model)).inference_stats.success.count;

const PROMPT = { text_input: "Hello", max_tokens: 6, seed: 5 };
const TEXT = "Every river joins every result under";

test("one engine: the same prompt and seed give the same text on every path", async () => {
  const whole = await generate("ensemble", PROMPT);
  expect(whole).toEqual({
    ...{ model_name: "ensemble", model_version: "1", batch_index: 0, sequence_index: 0 },
    ...{ sequence_id: 0, sequence_start: false, sequence_end: false, text_output: `Hello${TEXT}` },
  });
  const alone = await generate("ensemble", { ...PROMPT, exclude_input_in_output: true });
  expect(alone.text_output).toBe(TEXT);
  const [ensemble, bls, api, vllm] = await Promise.all([
    stream("ensemble", { ...PROMPT, stream: true }),
    stream("tensorrt_llm_bls", { ...PROMPT, stream: true }),
    stream("llmapi", { text_input: "Hello", sampling_param_max_tokens: 6, sampling_param_seed: 5, streaming: true }),
    generate("vllm_model", { ...PROMPT, exclude_input_in_output: true }),
  ]);
  expect([joined(ensemble), joined(bls), api.at(-1)!.text_output, vllm.text_output]).toEqual([TEXT, TEXT, TEXT, TEXT]);
  expect([ensemble.length, bls.length, api.length]).toEqual([6, 6, 6]);
  // Each response of the LLM API has the whole text so far.
  expect(api[1]!.text_output).toBe("Every river");
});

test("a request counts in the ensemble and in each of its steps; postprocessing runs per response", async () => {
  const models = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"];
  const before = await Promise.all(models.map(successes));
  await stream("ensemble", { ...PROMPT, stream: true });
  const after = await Promise.all(models.map(successes));
  expect(after.map((count, at) => count - before[at]!)).toEqual([1, 1, 1, 6]);
});

test("log probabilities, counts and times are returned on request", async () => {
  const wishes = {
    return_log_probs: true,
    return_num_input_tokens: true,
    return_num_output_tokens: true,
    return_perf_metrics: true,
  };
  const whole = await generate("ensemble", { ...PROMPT, ...wishes, exclude_input_in_output: true });
  const each = whole.output_log_probs as number[];
  expect(each).toHaveLength(6);
  expect(whole.cum_log_probs).toBeCloseTo(
    each.reduce((all, one) => all + one, 0),
    5,
  );
  expect(whole).toMatchObject({ num_input_tokens: 1, num_output_tokens: 6, kv_cache_alloc_new_blocks: 1 });
  const {
    arrival_time_ns: arrival,
    first_token_time_ns: first,
    last_token_time_ns: last,
  } = whole as Record<string, number>;
  expect(arrival!).toBeLessThan(first!);
  expect(first!).toBeLessThan(last!);
  const [one] = await stream("ensemble", { ...PROMPT, return_log_probs: true, stream: true });
  expect(one).toMatchObject({ output_log_probs: each[0], cum_log_probs: each[0] });
});

test("stop words end an answer and stay in it, bad words do not occur, end_id -1 turns the end off", async () => {
  const asked = { ...PROMPT, exclude_input_in_output: true };
  expect((await generate("ensemble", { ...asked, stop_words: [" joins"] })).text_output).toBe("Every river joins");
  expect((await generate("tensorrt_llm_bls", { ...asked, stop_words: ["joins"] })).text_output).toBe(
    "Every river joins",
  );
  expect((await generate("ensemble", { ...asked, bad_words: [" river"] })).text_output).not.toContain("river");
  const wants = { ...asked, max_tokens: 60, return_num_output_tokens: true };
  expect((await generate("ensemble", wants)).num_output_tokens).toBe(39);
  expect((await generate("ensemble", { ...wants, end_id: -1 })).num_output_tokens).toBe(60);
});

const tensor = (name: string, datatype: string, data: readonly (number | boolean)[], shape = [1, data.length]) => ({
  name,
  datatype,
  shape,
  data,
});
const ids = (body: object) => ({
  inputs: [
    tensor("input_ids", "INT32", [1, 2, 3]),
    tensor("input_lengths", "INT32", [3]),
    ...(Object.values(body) as object[]),
  ],
});

test("sequences, beams and rows of a batch are distinguished", async () => {
  const direct = { input_ids: [1, 2, 3], input_lengths: 3, request_output_len: 2, exclude_input_in_output: true };
  const several = await stream("tensorrt_llm", { ...direct, num_return_sequences: 2, seed: 1 });
  expect(several.map((one) => one.sequence_index).sort()).toEqual([0, 1]);
  const beams = await generate("tensorrt_llm", { ...direct, beam_width: 2 });
  expect(beams).toMatchObject({ sequence_length: [2, 2] });
  expect(beams.output_ids).toHaveLength(4);
  const echoed = await generate("tensorrt_llm", { ...direct, exclude_input_in_output: false });
  expect((echoed.output_ids as number[]).slice(0, 3)).toEqual([1, 2, 3]);
  expect(echoed.sequence_length).toBe(5);
  const tooWide = await post("tensorrt_llm", "generate", { ...direct, beam_width: 9 });
  expect(await tooWide.text()).toMatch(
    /Executor failed process requestId \d+ due to .* beam width 9 is larger than configured max beam width 4"/,
  );
  const tooMany = await post("tensorrt_llm", "generate_stream", { ...direct, num_return_sequences: 2 ** 31 - 1 });
  expect(await tooMany.text()).toContain("2147483647 sequences are more than the 65536 that the executor holds");
});

test("an id and stop end a request in the engine: it returns the tokens so far and counts as a success", async () => {
  const before = await statistics("tensorrt_llm");
  const running = stream("tensorrt_llm", {
    ...{ id: "mine", input_ids: [1, 2], input_lengths: 2, request_output_len: 5000, streaming: true },
  });
  await Bun.sleep(100);
  const stop = { id: "mine", input_ids: [1], input_lengths: 1, request_output_len: 1, stop: true };
  expect(await generate("tensorrt_llm", stop)).toEqual({ id: "mine", model_name: "tensorrt_llm", model_version: "1" });
  const events = await running;
  expect(events.at(-1)).toMatchObject({ sequence_length: 0, output_ids: [] });
  const after = await statistics("tensorrt_llm");
  expect(after.execution_count - before.execution_count).toBe(1);
  expect(after.inference_stats.success.count - before.inference_stats.success.count).toBe(1);
  const nameless = await generate("tensorrt_llm", { ...stop, id: undefined });
  expect(nameless).toEqual({ error: "Trying to stop a request but request ID is not provided" });
  const api = await generate("llmapi", { id: "other", text_input: "", stop: true });
  expect(api).toEqual({ error: "Request cancelled by client" });
});

test("an ensemble client that leaves ends the generation", async () => {
  const leaving = new AbortController();
  const body = JSON.stringify({ ...PROMPT, max_tokens: 100_000, end_id: -1, stream: true });
  const before = await successes("tensorrt_llm");
  const response = await fetch(`${child.url}/v2/models/ensemble/generate_stream`, {
    method: "POST",
    body,
    signal: leaving.signal,
  });
  expect(response.status).toBe(200);
  leaving.abort();
  while ((await successes("tensorrt_llm")) === before) await Bun.sleep(10);
});

test("metrics show the executor, and each backend's counts of its requests", async () => {
  const text = await (await fetch(`${child.metrics}/metrics`)).text();
  const value = (series: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`${series} `))
        ?.split(" ")[1],
    );
  const of = (model: string) => `model="${model}",`;
  const vllm = await successes("vllm_model");
  expect(vllm).toBeGreaterThan(0);
  expect(value('vllm:generation_tokens_total{model="vllm_model",version="1"}')).toBe(6 * vllm);
  expect(value('vllm:request_params_n_bucket{model="vllm_model",version="1",le="1"}')).toBe(vllm);
  expect(value('vllm:time_per_output_token_seconds_count{model="vllm_model",version="1"}')).toBe(5 * vllm);
  const kind = 'response_metric_type="total_output_tokens"';
  expect(value(`nv_llm_output_token_len_count{${of("tensorrt_llm")}${kind},version="1"}`)).toBe(
    await successes("tensorrt_llm"),
  );
  const blocks = (name: string) =>
    value(`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="${name}",${of("tensorrt_llm")}version="1"}`);
  expect(blocks("max")).toBe(blocks("free") + blocks("used"));
  expect(
    value(
      `nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="micro_batch_id",${of("tensorrt_llm")}version="1"}`,
    ),
  ).toBe(0);
  const types = [...text.matchAll(/^# TYPE \S+ (\S+)$/gm)].map(([, type]) => type);
  expect(types).toEqual(["counter", "gauge", "histogram"].flatMap((type) => types.filter((one) => one === type)));
  const asked = { "endpoint-load-metrics-format": "json" };
  const body = JSON.stringify({ ...PROMPT, max_tokens: 1 });
  const told = await fetch(`${child.url}/v2/models/ensemble/generate`, { method: "POST", body, headers: asked });
  const load = JSON.parse(told.headers.get("endpoint-load-metrics")!.slice("JSON ".length));
  expect(load.named_metrics.max_token_capacity).toBe(blocks("max") * blocks("tokens_per"));
});

test.each([
  [0, "0.0"],
  [25, "0.25"],
  [100, "1.0"],
])("the use of the KV cache is a double, as RapidJSON writes it: %d of 100 blocks", (usedBlocks, written) => {
  const cache = { usedBlocks, blocks: 100, tokensPerBlock: 32 };
  expect(loadMetrics("json", cache)).toEqual({
    "endpoint-load-metrics": `JSON {"named_metrics":{"kv_cache_utilization":${written},"max_token_capacity":3200}}`,
  });
});

test("the start message shows how to call a repository that cannot stream", async () => {
  const folder = mkdtempSync(join(tmpdir(), "trtllm-whole-"));
  for (const name of ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"]) {
    cpSync(join(SHIPPED, name), join(folder, name), { recursive: true });
    const config = join(folder, name, "config.pbtxt");
    writeFileSync(config, readFileSync(config, "utf8").replace("decoupled: true", "decoupled: false"));
  }
  const whole = await hostTriton([`--model-repository=${folder}`]);
  const [, url = "", body] = /^ {2}try +curl (\S+) -d '(.+)'$/m.exec(whole.output())!;
  const told = await fetch(url, { method: "POST", body });
  expect([told.status, url.replace(whole.url, ""), await told.json()]).toEqual([
    200,
    "/v2/models/ensemble/generate",
    expect.objectContaining({ text_output: expect.any(String) }),
  ]);
  expect(child.output()).toContain("/v2/models/ensemble/generate_stream -d '");
  await whole.stop(0);
  rmSync(folder, { recursive: true });
});

test("errors have the backend's messages", async () => {
  const none = await generate("tensorrt_llm", { input_ids: [1], input_lengths: 1, request_output_len: 0 });
  expect(none).toEqual({ error: "Assertion failed: mMaxNewTokens > 0" });
  const missing = await generate("ensemble", { text_input: "Hello" });
  expect(missing.error).toContain("expected number of inputs between 2 and 36 but got 1 inputs for model 'ensemble'");
  const long = { input_ids: new Array(131_072).fill(1), input_lengths: 131_072, request_output_len: 1 };
  expect((await generate("tensorrt_llm", long)).error).toContain(
    "Prompt length (131072) exceeds maximum input length (131071)",
  );
  const unary = await post("ensemble", "infer", ids({}));
  expect(unary.status).toBe(501);
});

test("over gRPC: ModelStreamInfer has each token; ModelInfer is refused for a decoupled model", async () => {
  const client = new TritonClient(child.grpc);
  const request = (name: string, ...more: readonly (readonly [string, string, string])[]) => ({
    model_name: name,
    inputs: [["text_input", "BYTES"], ["max_tokens", "INT32"], ...more].map(([of, datatype]) => ({
      name: of,
      datatype,
      shape: ["1", "1"],
    })),
    outputs: [{ name: "text_output" }],
    raw_input_contents: [bytesText("Hello"), int32(6), ...more.map(([, , bytes]) => bytes)],
  });
  const yes = Buffer.of(1).toString("base64");
  const seed = ["seed", "UINT64", Buffer.from(BigUint64Array.of(5n).buffer).toString("base64")] as const;
  const call = client.stream();
  const texts: string[] = [];
  call.on("data", (bytes: Buffer) => {
    const { infer_response: answer, error_message: error } = decoded("ModelStreamInferResponse", bytes) as {
      readonly infer_response: { readonly raw_output_contents?: readonly string[] };
      readonly error_message?: string;
    };
    expect(error ?? "").toBe("");
    for (const one of answer.raw_output_contents ?? []) texts.push(Buffer.from(one, "base64").subarray(4).toString());
  });
  call.write(encoded("ModelInferRequest", request("ensemble", ["stream", "BOOL", yes], seed)));
  call.end();
  await new Promise((done) => call.on("end", done));
  expect(texts).toHaveLength(6);
  expect(texts.join("")).toBe(TEXT);
  expect(await client.call("ModelInfer", request("ensemble", seed))).toMatchObject({ code: "UNIMPLEMENTED" });
  client.close();
});

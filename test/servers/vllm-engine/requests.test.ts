/** Tests what requests of a front end can ask for: log probabilities, constraints, adapters, orders, and the text of our server. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { seededLogprobs } from "../../../src/servers/openai/request/logprobs.ts";
import { loadVocabulary } from "../../../src/text/tokens/vocabulary.ts";
import { Extension, type MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { type EngineMessage, mapOf, SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

const vocabulary = loadVocabulary(readFileSync(new URL("../../../build/vocabulary.bin", import.meta.url)));
const SHARED = ["--seed=1", "--max-model-len=2000", "--timing=constant:ttft=5ms,itl=1ms", "--served-model-name=m"];
let front: SmallFront;
let engine: HostedServer;
let server: HostedServer;
beforeAll(async () => {
  front = new SmallFront();
  const flags = ["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--enable-lora"];
  [engine, server] = await Promise.all([
    hosted([...SHARED, ...flags, "--allow-request-orders=all", "--kv-transfer-time=base=70ms"]),
    hosted([...SHARED, "--max-logprobs=40"]),
  ]);
  await front.until(() => front.statuses.includes("READY"));
});
afterAll(async () => {
  await front.close();
  await Promise.all([engine.stop(0), server.stop(0)]);
});

type Params = Readonly<Record<string, MsgpackValue>>;
let made = 0;

/** Returns the outputs of a request after its end. */
async function outputs(params: Params, prompt?: readonly number[], more: Params = {}) {
  const id = `cmpl-${made++}`;
  front.add(id, params, prompt, { external_req_id: id, ...more });
  await front.until(() => front.outputsOf(id).some(({ finish_reason }) => finish_reason !== null));
  return front.outputsOf(id);
}
const tokensIn = (all: Awaited<ReturnType<typeof outputs>>) =>
  all.flatMap(({ new_token_ids }) => new_token_ids as number[]);
const order = (value: object) => ({ extra_args: mapOf({ understudy: JSON.stringify(value) }) });

async function detokenized(tokens: readonly number[]): Promise<string> {
  const body = JSON.stringify({ model: "m", tokens });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${server.url}/detokenize`, { method: "POST", headers, body });
  return ((await answer.json()) as { readonly prompt: string }).prompt;
}

/** Returns the ids of our own server's answer to the same prompt. */
async function ownTokens(fields: object): Promise<readonly number[]> {
  const body = JSON.stringify({ model: "m", prompt: [1, 2, 3], return_token_ids: true, ...fields });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body });
  const { choices } = (await answer.json()) as { readonly choices: readonly { readonly token_ids: number[] }[] };
  return choices[0]!.token_ids;
}

test("the tokens are those of our own server for the same prompt, seed and rules", async () => {
  const eos = await outputs({ max_tokens: 1900, _eos_token_id: 1, seed: 9 });
  const cases: readonly [Params, object][] = [
    [
      { max_tokens: 30, _eos_token_id: 1, seed: 4 },
      { max_tokens: 30, seed: 4 },
    ],
    [
      { max_tokens: 1900, _eos_token_id: 1, seed: 9 },
      { max_tokens: 1900, seed: 9 },
    ],
    [
      { max_tokens: 30, seed: 4, temperature: 0 },
      { max_tokens: 30, seed: 4, temperature: 0, ignore_eos: true },
    ],
    [
      { max_tokens: 30, _eos_token_id: 1, temperature: 0 },
      { max_tokens: 30, temperature: 0 },
    ],
    [
      { max_tokens: 20, seed: 2 ** 40 + 7 },
      { max_tokens: 20, seed: 2 ** 40 + 7, ignore_eos: true },
    ],
    [
      { max_tokens: 20, seed: 3, allowed_token_ids: [300, 301, 302] },
      { max_tokens: 20, seed: 3, allowed_token_ids: [300, 301, 302], ignore_eos: true },
    ],
    [
      { max_tokens: 20, seed: 3, logit_bias: new Map([[400, 100] as const, [401, -100] as const]) },
      { max_tokens: 20, seed: 3, logit_bias: { 400: 100, 401: -100 }, ignore_eos: true },
    ],
  ];
  for (const [params, fields] of cases) expect(tokensIn(await outputs(params))).toEqual([...(await ownTokens(fields))]);
  expect(eos.at(-1)).toMatchObject({ finish_reason: 0, stop_reason: null });
});

/** Returns the numbers of an array: raw bytes in the message, or in a further frame. */
function numbers(array: unknown, { frames }: Pick<EngineMessage, "frames">): readonly number[] {
  const [type, shape, data] = array as [string, number[], Extension | number];
  const bytes = Uint8Array.from(data instanceof Extension ? data.data : frames[data - 1]!);
  const all = type.includes("f") ? new Float32Array(bytes.buffer) : new Int32Array(bytes.buffer);
  expect(all).toHaveLength(shape.reduce((product, size) => product * size, 1));
  return [...all];
}

test("log probabilities of tokens and of the prompt are those of our own server", async () => {
  const prompt = Array.from({ length: 40 }, (_, at) => 300 + at);
  const all = await outputs({ max_tokens: 3, seed: 5, logprobs: 2, prompt_logprobs: 3 }, prompt);
  const source = seededLogprobs(vocabulary.size);
  const messages = front.messages.slice(-3);
  for (const [position, output] of all.entries()) {
    const [id] = output.new_token_ids as [number];
    const wanted = source(5, id, position, 2);
    const [ids, logprobs, ranks, none] = output.new_logprobs as readonly unknown[];
    expect(numbers(ids, messages[position]!)).toEqual([id, ...wanted.ids]);
    expect(numbers(logprobs, messages[position]!)).toEqual([wanted.logprob, ...wanted.logprobs].map(Math.fround));
    expect([numbers(ranks, messages[position]!), none]).toEqual([[1], null]);
  }
  const [ids, logprobs, ranks] = all[0]!.new_prompt_logprobs_tensors as readonly unknown[];
  const rows = prompt.slice(1).map((id, at) => [id, ...source(5, id, at + 1, 3, true).ids]);
  expect(numbers(ids, messages[0]!)).toEqual(rows.flat());
  expect((logprobs as unknown[]).slice(0, 2)).toEqual(["float32", [39, 4]]);
  expect(numbers(ranks, messages[0]!)).toEqual(rows.map(() => 1));
  expect(all.slice(1).map((output) => output.new_prompt_logprobs_tensors)).toEqual([null, null]);
});

test("more log probabilities than --max-logprobs are refused, and 0 are one column", async () => {
  for (const params of [{ logprobs: 21 }, { prompt_logprobs: 21 }, { logprobs: -1 }] as Params[]) {
    const [refused] = await outputs(params);
    expect(refused).toMatchObject({ finish_reason: 3, error: { code: "validation_error" } });
  }
  const [one] = await outputs({ logprobs: 0, max_tokens: 1 });
  expect((one!.new_logprobs as [[string, number[]]])[0].slice(0, 2)).toEqual(["<i4", [1, 1]]);
});

const structured = (value: Readonly<Record<string, MsgpackValue>>) => ({ structured_outputs: mapOf(value) });

test("an answer fits its constraint, and a broken constraint is refused", async () => {
  const asked = { max_tokens: 500, _eos_token_id: 1, seed: 8 };
  const schema = mapOf({ type: "object", properties: mapOf({ a: mapOf({ type: "integer" }) }), required: ["a"] });
  const textOf = async (what: Params) => {
    const tokens = tokensIn(await outputs({ ...asked, ...structured(what) }));
    return detokenized(tokens.slice(0, -1));
  };
  expect(JSON.parse(await textOf({ json: schema }))).toMatchObject({ a: expect.any(Number) });
  expect(await textOf({ regex: "[a-c]{4}" })).toMatch(/^[a-c]{4}$/);
  expect(["yes", "no"]).toContain(await textOf({ choice: ["yes", "no"] }));
  expect(JSON.parse(await textOf({ json_object: true }))).toBeObject();
  const [refused] = await outputs({ ...asked, ...structured({ regex: "(" }) });
  expect(refused).toMatchObject({ finish_reason: 3, error: { code: "validation_error", retryable: false } });
});

test("an ordered answer must fit its constraint, too", async () => {
  const script = order({ script: [[400], [401]] });
  const [refused] = await outputs({ ...script, ...structured({ regex: "(" }) });
  expect(refused).toMatchObject({ finish_reason: 3, error: { code: "validation_error" } });
  const all = await outputs({ ...script, ...structured({ choice: ["yes", "no"] }) });
  expect(all.map(({ finish_reason }) => finish_reason)).toEqual([3]);
  const fits = await outputs({ _eos_token_id: 1, ...order({ script: "yes" }), ...structured({ choice: ["yes"] }) });
  expect(fits.at(-1)).toMatchObject({ finish_reason: 0 });
});

test("the listed log probability of the token is the token's own, also minus infinity", async () => {
  const sequences = [{ steps: [[400], [401]], minus_infinity_at: [1] }];
  const all = await outputs({ logprobs: 1, max_tokens: 2, ...order({ script: { sequences, logprobs: "ranked" } }) });
  const values = front.messages.slice(-2).map((message, at) => {
    const [, logprobs] = all[at]!.new_logprobs as readonly unknown[];
    return numbers(logprobs, message);
  });
  expect(values).toEqual([
    [-0.5, -0.5],
    [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY],
  ]);
});

test("a request that is aborted while its answer is written gets no output", async () => {
  const before = front.messages.length;
  front.add("gone", { max_tokens: 50, ...structured({ regex: "[a-z]{300}" }) });
  front.abort("gone");
  await outputs({ max_tokens: 30 });
  expect(front.outputsOf("gone")).toEqual([]);
  expect(front.messages.length).toBeGreaterThan(before);
});

test("an order in vllm_xargs sets tokens, steps, end and text of the answer", async () => {
  const ends = { max_tokens: 50, _eos_token_id: 1 };
  const steps = await outputs({ ...ends, ...order({ script: [[300, 301], [302], [303, 304, 305]] }) });
  expect(steps.map((step) => step.new_token_ids).slice(0, 3)).toEqual([[300, 301], [302], [303, 304, 305]]);
  const said = await outputs({ ...ends, ...order({ script: "Good day." }) });
  expect(await detokenized(tokensIn(said).slice(0, -1))).toBe("Good day.");
  const failed = await outputs({
    ...ends,
    ...order({ script: { sequences: [{ steps: [[300], [301]], finish: "error" }] } }),
  });
  expect(failed.at(-1)).toMatchObject({ finish_reason: 3 });
  const [echo] = await outputs({ max_tokens: 1, ...order({ echo: true }) }, [777]);
  expect(echo!.new_token_ids).toEqual([777]);
});

test.each<[object | string, string]>([
  ["{", "understudy: not JSON"],
  [{ script: [[2 ** 30]] }, "understudy: token id 1073741824 is out of vocabulary"],
  [{ call: true }, 'understudy: "call" needs the tools of the request'],
  [{ play: "none" }, 'understudy: no script of --script is named "none"'],
])("the order %j is refused", async (value, why) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const [refused] = await outputs({ extra_args: mapOf({ understudy: text }) });
  expect(refused).toMatchObject({ finish_reason: 3, error: { message: expect.stringContaining(why) } });
});

test("an answer that repeats itself ends, if the request looks for that", async () => {
  const repetition = mapOf({ max_pattern_size: 2, min_pattern_size: 1, min_count: 3 });
  const all = await outputs({
    ...{ max_tokens: 50, repetition_detection: repetition },
    ...order({ script: Array.from({ length: 20 }, () => [300]) }),
  });
  expect(all).toHaveLength(3);
  expect(all.at(-1)).toMatchObject({ finish_reason: 4, stop_reason: "repetition_detected" });
});

test("adapters are loaded, used, counted and unloaded", async () => {
  const lora = (id: number): MsgpackValue => [`adapter-${id}`, id, `/adapters/${id}`, null, false, false];
  const called = async (method: string, ...args: readonly MsgpackValue[]) => {
    const id = 5000 + made++;
    front.call(id, method, ...args);
    const answer = () => front.messages.find(({ utility_output: out }) => (out as unknown[] | null)?.[0] === id);
    await front.until(() => answer() !== undefined);
    const [, failure, result] = answer()!.utility_output as [number, string | null, [null, unknown] | null];
    return failure ?? result![1];
  };
  expect(front.registrations[0]).toMatchObject({ supports_lora: true, max_loras: 1 });
  expect(await called("add_lora", lora(7))).toBe(true);
  expect(await called("list_loras")).toEqual([7]);
  expect(await called("pin_lora", 7)).toBe(true);
  const from = front.messages.length;
  await outputs({ max_tokens: 5 }, undefined, { lora_request: lora(7) });
  const running = front.messages.slice(from).map(({ scheduler_stats: stats }) => stats as Record<string, unknown>);
  expect(running[0]!.running_lora_adapters).toEqual({ "adapter-7": 1 });
  expect(running.at(-1)!.running_lora_adapters).toEqual({});
  expect(await called("remove_lora", 7)).toBe(true);
  expect(await called("remove_lora", 7)).toBe(false);
  expect(await called("add_lora", "x")).toContain("lora_request: takes a list");
  expect(await called("set_weight_version", "v2")).toBeNull();
  expect(await called("get_weight_version")).toBe("v2");
  front.add("long", { max_tokens: 1500 }, undefined, { lora_request: lora(8) });
  await front.until(() => front.outputsOf("long").length > 2);
  expect(await (await fetch(`${engine.url}/metrics`)).text()).toContain('running_lora_adapters="adapter-8"');
  front.abort("long");
});

test("prompts with another adapter or salt share no blocks", async () => {
  const prompt = Array.from({ length: 64 }, (_, at) => 900 + at);
  const cached = async (more: Params) => {
    const [first] = await outputs({ max_tokens: 1 }, prompt, more);
    return (first!.prefill_stats as { readonly num_cached_tokens: number }).num_cached_tokens;
  };
  expect(await cached({})).toBe(0);
  expect(await cached({})).toBe(48);
  expect(await cached({ cache_salt: "s" })).toBe(0);
  expect(await cached({ lora_request: ["other", 9, "/a", null, false, false] })).toBe(0);
  expect(await cached({ lora_request: ["other", 9, "/a", null, false, false] })).toBe(48);
  expect(await cached({ lora_request: ["other", 10, "/b", null, false, false] })).toBe(0);
});

test("a request during a pause is answered with engine_paused", async () => {
  front.call(1, "pause_generation", "abort", false);
  await Bun.sleep(20);
  const [refused] = await outputs({ max_tokens: 2 });
  expect(refused).toMatchObject({
    error: {
      code: "engine_paused",
      message: "Generation is paused. Please retry after it resumes.",
      retryable: true,
    },
  });
  front.call(2, "resume_scheduler");
  await outputs({ max_tokens: 2 });
});

test("a prompt in parts is refused, and one that is aborted at once is not answered", async () => {
  const [refused] = await outputs({}, undefined, { resumable: true });
  expect(refused).toMatchObject({ error: { message: "resumable: this engine does not take a prompt in parts" } });
  front.add("cleanup", {}, undefined, { abort_immediately: true });
  await outputs({ max_tokens: 2 });
  expect(front.outputsOf("cleanup")).toEqual([]);
});

test("a tool call whose arguments may be any value gets an object", async () => {
  const content = { type: "json_schema", json_schema: true };
  const tag = { type: "tag", begin: '{"name": "f", "arguments": ', content, end: "}" };
  const tags = { type: "structural_tag", format: { type: "tags_with_separator", tags: [tag], stop_after_first: true } };
  for (let seed = 0; seed < 5; seed++) {
    const params = { max_tokens: 500, _eos_token_id: 1, seed, ...structured({ structural_tag: JSON.stringify(tags) }) };
    const text = await detokenized(tokensIn(await outputs(params)).slice(0, -1));
    expect(JSON.parse(text)).toEqual({ name: "f", arguments: expect.any(Object) });
  }
});

test("outputs that are due at the same time are messages of their own, and lose no token", async () => {
  const steps = Array.from({ length: 12 }, (_, at) => [300 + at]);
  const sequence = { steps, times_ms: [0, 0, 0, ...steps.slice(3).map(() => 60)] };
  const asked = { max_tokens: 12, ...order({ script: { sequences: [sequence] } }) };
  expect(tokensIn(await outputs(asked))).toEqual(steps.flat());
});

test("a request orders faults of its own outputs", async () => {
  const fault = (plan: string) => ({ ...order({ fault: plan, script: [[300], [301], [302]] }), max_tokens: 3 });
  expect(tokensIn(await outputs(fault("output-lost@2")))).toEqual([300, 302]);
  expect(tokensIn(await outputs(fault("output-twice@1")))).toEqual([300, 300, 301, 302]);
  const [refused] = await outputs(order({ fault: "no-such" }));
  expect(refused).toMatchObject({
    finish_reason: 3,
    error: { message: expect.stringContaining('"fault" takes NAME') },
  });
});

test("the prompt of another engine is held back for its transfer, and the last output has parameters for the next one", async () => {
  const params = (value: Readonly<Record<string, MsgpackValue>>) => ({
    max_tokens: 2,
    extra_args: mapOf({ kv_transfer_params: mapOf(value) }),
  });
  const waits = async (value: Readonly<Record<string, MsgpackValue>>) => {
    const all = await outputs(params(value));
    const [queued, scheduled] = all[0]!.events as readonly { readonly timestamp: number }[];
    return [scheduled!.timestamp - queued!.timestamp, all.at(-1)!.kv_transfer_params] as const;
  };
  const [, sent] = await waits({ do_remote_decode: true, do_remote_prefill: false });
  expect(sent).toMatchObject({ do_remote_prefill: true, do_remote_decode: false, remote_port: 5600 });
  const sentUs = performance.now();
  const [, none] = await waits({ do_remote_prefill: true });
  expect(performance.now() - sentUs).toBeGreaterThan(60);
  expect(none).toBeNull();
});

/** Tests an engine behind a small front end: it joins, answers requests and calls, and survives the end of the front end. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { type EngineMessage, SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

let front: SmallFront;
let server: HostedServer;
const start = (rpcPort: number, ...flags: readonly string[]) =>
  hosted([
    ...["--role=vllm-engine", `--data-parallel-rpc-port=${rpcPort}`, "--seed=1", "--max-model-len=200"],
    ...["--timing=constant:ttft=5ms,itl=2ms", ...flags],
  ]);
beforeAll(async () => {
  front = new SmallFront();
  server = await start(front.rpcPort, "--data-parallel-rank=3");
  await front.until(() => front.statuses.includes("READY"));
});
afterAll(async () => {
  await front.close();
  await server.stop(0);
});

const ended = (id: string) =>
  front.until(() => front.outputsOf(id).some(({ finish_reason }) => finish_reason !== null));
const tokensOf = (id: string) => front.outputsOf(id).flatMap(({ new_token_ids }) => new_token_ids as number[]);

/** Reads a metric from the engine's `/metrics`. Returns the sum of its samples, whatever their labels. */
async function metric(name: string): Promise<number> {
  const page = await (await fetch(`${server.url}/metrics`)).text();
  const samples = [...page.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))];
  expect(samples, name).not.toEqual([]);
  return samples.reduce((sum, [, value]) => sum + Number(value), 0);
}

test("the engine joins with its figures, and is healthy", async () => {
  expect(front.statuses).toEqual(["HELLO", "READY"]);
  expect(front.registrations[0]).toMatchObject({
    max_model_len: 200,
    block_size: 16,
    data_parallel_rank: 3,
    vllm_version: "0.33.0",
    dp_stats_address: "tcp://127.0.0.1:1",
  });
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("a request gets a token per step until its limit, and the engine counts it", async () => {
  const before = await metric("vllm:generation_tokens_total");
  front.add("limit", { max_tokens: 7 });
  await ended("limit");
  const outputs = front.outputsOf("limit");
  expect(outputs).toHaveLength(7);
  expect(outputs.map(({ finish_reason }) => finish_reason)).toEqual([null, null, null, null, null, null, 1]);
  expect(front.messages.at(-1)).toMatchObject({ engine_index: 3, finished_requests: ["limit"], utility_output: null });
  const times = front.messages.filter(({ outputs: all }) => all.length > 0).map(({ timestamp }) => timestamp as number);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect((await metric("vllm:generation_tokens_total")) - before).toBe(7);
});

test("an answer ends with the end-of-sequence token if the request has one, and the seed repeats it", async () => {
  for (const id of ["eos-1", "eos-2"]) front.add(id, { max_tokens: 190, _eos_token_id: 1, seed: 5 });
  await ended("eos-1");
  await ended("eos-2");
  expect(front.outputsOf("eos-1").at(-1)).toMatchObject({ finish_reason: 0, stop_reason: null });
  expect(tokensOf("eos-1").length).toBeLessThan(190);
  expect(tokensOf("eos-2")).toEqual(tokensOf("eos-1"));
});

test("a stop token ends the answer, and is named", async () => {
  const [, second] = tokensOf("eos-1");
  front.add("stop", { max_tokens: 50, seed: 5, stop_token_ids: [second!] });
  await ended("stop");
  expect(front.outputsOf("stop").at(-1)).toMatchObject({
    finish_reason: 0,
    stop_reason: second,
    new_token_ids: [second],
  });
});

test("all requests of a step are in one message, and an abort ends its request alone", async () => {
  const before = front.messages.length;
  for (const id of ["a", "b", "c"]) front.add(id, { max_tokens: 100 });
  await front.until(() => front.outputsOf("c").length > 3);
  front.abort("b", "nobody");
  await ended("a");
  await ended("c");
  const sizes = front.messages.slice(before).map(({ outputs }) => outputs.length);
  expect(sizes).toContain(3);
  expect(sizes).toContain(2);
  expect(front.outputsOf("b").every(({ finish_reason }) => finish_reason === null)).toBe(true);
  expect(await metric("vllm:num_requests_running")).toBe(0);
});

test("every call is answered, alone in its message, with its id", async () => {
  front.call(2n ** 63n + 1n, "get_supported_tasks");
  front.call(2, "reset_mm_cache");
  front.call(3, "no_such_method", 1);
  await front.until(() => front.messages.filter(({ utility_output }) => utility_output !== null).length === 3);
  // Each answer comes when its function has ended, so that the order may differ.
  const idOf = ({ utility_output: output }: EngineMessage) => Number((output as [number | bigint])[0]);
  const answers = front.messages.filter(({ utility_output }) => utility_output !== null);
  answers.sort((a, b) => idOf(b) - idOf(a));
  expect(answers.map(({ utility_output, outputs }) => [utility_output, outputs])).toEqual([
    [[2n ** 63n + 1n, null, [null, ["generate"]]], []],
    [[3, "Call to no_such_method method failed: this engine does not have it", null], []],
    [[2, null, [null, null]], []],
  ]);
});

test("the first output has the times of the queue and the prompt's use of the cache, and each message the scheduler's state", async () => {
  const prompt = Array.from({ length: 40 }, (_, at) => at + 500);
  for (const id of ["fresh", "cached"]) {
    front.add(id, { max_tokens: 4 }, prompt);
    await ended(id);
  }
  const [fresh, cached] = ["fresh", "cached"].map((id) => front.outputsOf(id));
  const counts = (computed: number, found: number, created: number) => ({
    num_prompt_tokens: 40,
    num_computed_tokens: computed,
    num_cached_tokens: found,
    num_local_cached_tokens: found,
    num_external_cached_tokens: 0,
    num_cache_creation_tokens: created,
  });
  expect(fresh![0]!.prefill_stats).toEqual(counts(40, 0, 32));
  expect(cached![0]!.prefill_stats).toEqual(counts(8, 32, 0));
  for (const outputs of [fresh!, cached!]) {
    const events = outputs[0]!.events as readonly { readonly type: number; readonly timestamp: number }[];
    expect(events.map(({ type }) => type)).toEqual([1, 2]);
    expect(events[0]!.timestamp).toBeLessThanOrEqual(events[1]!.timestamp);
    expect(outputs.slice(1).map(({ events: later, prefill_stats }) => [later, prefill_stats])).toEqual(
      outputs.slice(1).map(() => [null, null]),
    );
  }
  const stats = front.messages.slice(-4).map(({ scheduler_stats }) => scheduler_stats as Record<string, unknown>);
  expect(stats.map(({ num_running_reqs }) => num_running_reqs)).toEqual([1, 1, 1, 0]);
  expect(stats[0]!.prefix_cache_stats).toMatchObject({ requests: 1, queries: 40, hits: 32 });
  expect(stats[1]!.prefix_cache_stats).toMatchObject({ requests: 0, queries: 0, hits: 0 });
});

test("the timestamps of messages are the due times of steps, whatever the wall clock says", async () => {
  front.add("steps", { max_tokens: 5 });
  await ended("steps");
  const times = front.messages.slice(-5).map(({ timestamp }) => Math.round((timestamp as number) * 1e6));
  expect(times.slice(1).map((us, at) => us - times[at]!)).toEqual([2000, 2000, 2000, 2000]);
});

/** Returns the answer to a call. */
async function called(method: string, ...args: readonly (boolean | number | string | null)[]): Promise<unknown> {
  const id = front.messages.length + 1000;
  front.call(id, method, ...args);
  const answer = () => front.messages.find(({ utility_output: output }) => (output as unknown[] | null)?.[0] === id);
  await front.until(() => answer() !== undefined);
  const [, failure, result] = answer()!.utility_output as [number, string | null, [null, unknown] | null];
  return failure ?? result![1];
}

test("the engine pauses, sleeps and empties its cache when the front end asks", async () => {
  expect(await called("is_scheduler_paused")).toBe(false);
  expect(await called("pause_generation", "keep", false)).toBeNull();
  expect(await called("is_scheduler_paused")).toBe(true);
  front.add("held", { max_tokens: 2 });
  expect(await called("resume_scheduler")).toBeNull();
  await ended("held");
  expect(await called("sleep", 1, "abort")).toBeNull();
  expect(await called("is_sleeping")).toBe(true);
  expect(await called("wake_up", null)).toBe(true);
  expect(await called("is_sleeping")).toBe(false);
  expect(await called("reset_prefix_cache", false, false)).toBe(true);
});

test("a request that cannot be run gets an error", async () => {
  front.add("empty", {}, []);
  front.add("none", {}, null);
  front.add(
    "long",
    {},
    Array.from({ length: 200 }, () => 1),
  );
  for (const id of ["empty", "none", "long"]) await ended(id);
  const error = (message: string) => ({ code: "validation_error", message, retryable: false });
  expect(["empty", "none", "long"].map((id) => front.outputsOf(id)[0])).toMatchObject([
    { finish_reason: 3, error: error("prompt_token_ids: must have at least one token") },
    { finish_reason: 3, error: error("prompt_token_ids: must have at least one token") },
    { finish_reason: 3, error: error("a prompt of 200 tokens, and the model takes 200") },
  ]);
});

test("every request whose id can be read is answered, whatever its other fields are", async () => {
  const strange: readonly Readonly<Record<string, MsgpackValue>>[] = [
    { max_tokens: -3 },
    { max_tokens: 2 ** 52, stop_token_ids: Array.from({ length: 100_000 }, (_, at) => at) },
    { max_tokens: 3, min_tokens: 2 ** 40, stop_token_ids: [-1, 2 ** 33, 5, 5, 5] },
    { max_tokens: 3, seed: -(2 ** 40), min_tokens: -1, _eos_token_id: 2 ** 40 },
    { max_tokens: "many" },
    { seed: new Map() },
  ];
  for (const [at, params] of strange.entries()) front.add(`strange-${at}`, params);
  const prompts = [[-1], [2 ** 32], [0.5], [2 ** 32 - 1, 0]];
  for (const [at, prompt] of prompts.entries()) front.add(`prompt-${at}`, { max_tokens: 2 }, prompt);
  const huge = "x".repeat(1 << 20);
  front.add(huge, { max_tokens: 2 });
  for (const at of strange.keys()) await ended(`strange-${at}`);
  for (const at of prompts.keys()) await ended(`prompt-${at}`);
  await ended(huge);
  const reasonOf = (id: string) => front.outputsOf(id).at(-1)!.finish_reason;
  expect(prompts.map((_, at) => reasonOf(`prompt-${at}`))).toEqual([3, 3, 3, 1]);
  expect(strange.map((_, at) => reasonOf(`strange-${at}`)).slice(4)).toEqual([3, 3]);
  expect(front.outputsOf("prompt-0")[0]!.error).toMatchObject({
    message: "prompt_token_ids: takes ids from 0 to 4294967295, not -1",
  });
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("a message that cannot be read is logged and dropped, and the next one is answered", async () => {
  front.send([Buffer.from([0]), Buffer.from("ffff", "hex")]);
  front.send([Buffer.from([9]), Buffer.from("90", "hex")]);
  front.send([Buffer.from([1])]);
  front.add("after", { max_tokens: 1 });
  await ended("after");
  await front.until(() => server.output().split("a message of the front end is dropped: ").length === 4);
});

test("a front end that has ended is joined again, and its requests have ended", async () => {
  const { rpcPort } = front;
  front.add("left", { max_tokens: 150 });
  await front.until(() => front.outputsOf("left").length > 2);
  await called("pause_generation", "keep", false);
  await called("set_weight_version", "old");
  await front.close();
  while ((await metric("vllm:num_requests_running")) > 0) await Bun.sleep(5);
  expect((await fetch(`${server.url}/health`)).status).toBe(503);
  front = new SmallFront(rpcPort);
  await front.until(() => front.statuses.includes("READY"));
  front.add("again", { max_tokens: 3 });
  await ended("again");
  expect(front.outputsOf("again")).toHaveLength(3);
  expect(await called("get_weight_version")).toBeNull();
  expect(await called("add_lora", "x")).toContain("LoRA is not enabled");
});

test("an engine whose front end is not there waits, and is not ready", async () => {
  const alone = await start(9);
  expect((await fetch(`${alone.url}/health`)).status).toBe(503);
  await alone.stop(0);
});

test.each([
  ["engine-dead", ["ENGINE_CORE_DEAD"]],
  ["engine-gone", []],
])("an engine with the fault %s leaves for good, and its metrics stay", async (fault, words) => {
  const own = new SmallFront();
  const leaving = await start(own.rpcPort, `--front-faults=${fault}@3`);
  await own.until(() => own.statuses.includes("READY"));
  own.add("cut", { max_tokens: 50 });
  await own.until(() => leaving.output().includes("rank 0 leaves the front end, as a fault orders"));
  await own.until(() => own.peers === 0);
  expect(own.outputsOf("cut")).toHaveLength(2);
  expect(own.words).toEqual([...words]);
  expect((await fetch(`${leaving.url}/health`)).status).toBe(503);
  expect((await fetch(`${leaving.url}/metrics`)).status).toBe(200);
  await Promise.all([own.close(), leaving.stop(0)]);
});

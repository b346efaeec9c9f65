/** Tests several engines in one process behind a front end with a coordinator, and a message too long for one write. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../../hosted.ts";
import { SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

let front: SmallFront;
let server: HostedServer;
beforeAll(async () => {
  front = new SmallFront(0, [], true);
  server = await hosted([
    ...["--role=vllm-engine", `--data-parallel-rpc-port=${front.rpcPort}`, "--seed=1", "--max-num-seqs=4096"],
    ...[
      "--data-parallel-rank=2",
      "--data-parallel-size=2",
      "--timing=constant:ttft=5ms,itl=2ms",
      "--front-faults=rank-slow@3=4",
    ],
  ]);
  await front.until(() => front.statuses.filter((status) => status === "READY").length === 2);
});
afterAll(async () => {
  await front.close();
  await server.stop(0);
});

const ended = (id: string) =>
  front.until(() => front.outputsOf(id).some(({ finish_reason }) => finish_reason !== null));

test("each engine joins with its own rank, answers its own requests, and shows them on the page", async () => {
  const ranks = front.registrations.map(({ data_parallel_rank }) => data_parallel_rank as number);
  expect(ranks.toSorted()).toEqual([2, 3]);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  for (const rank of [2, 3]) {
    front.add(`at-${rank}`, { max_tokens: 4 }, [1], {}, rank);
    await ended(`at-${rank}`);
    const of = front.messages.filter(({ outputs }) => outputs.some(({ request_id }) => request_id === `at-${rank}`));
    expect(of.map(({ engine_index }) => engine_index)).toEqual([rank, rank, rank, rank]);
  }
  const page = await (await fetch(`${server.url}/metrics`)).text();
  const tokens = [...page.matchAll(/^vllm:generation_tokens_total\{engine="(\d)".*\} (\S+)$/gm)];
  expect(tokens.map(([, engine, value]) => [engine, Number(value)])).toEqual([
    ["0", 4],
    ["1", 4],
  ]);
});

test("the steps of a slow rank take longer", async () => {
  for (const [rank, stepUs] of [
    [2, 2000],
    [3, 8000],
  ] as const) {
    front.add(`slow-${rank}`, { max_tokens: 4 }, [1], {}, rank);
    await ended(`slow-${rank}`);
    const times = front.messages.slice(-3).map(({ timestamp }) => Math.round((timestamp as number) * 1e6));
    expect(times.slice(1).map((us, at) => us - times[at]!)).toEqual([stepUs, stepUs]);
  }
});

test("a rank that is paused leaves the others running", async () => {
  front.call(71, "pause_generation", "keep", false);
  await front.until(() => front.messages.some(({ utility_output: out }) => (out as unknown[] | null)?.[0] === 71));
  const [paused] = front.messages.flatMap(({ utility_output: out, engine_index: rank }) =>
    (out as unknown[] | null)?.[0] === 71 ? [rank as number] : [],
  );
  front.add("runs", { max_tokens: 2 }, [1], {}, paused === 2 ? 3 : 2);
  front.add("waits", { max_tokens: 2 }, [1], {}, paused!);
  await ended("runs");
  expect(front.outputsOf("waits")).toEqual([]);
  front.call(72, "resume_scheduler");
  await ended("waits");
});

test("the coordinator is woken by a request for idle engines, and told how many requests wait and run", async () => {
  const { messages } = front.coordinator!;
  const from = messages.length;
  front.add("waking", { max_tokens: 3 }, [1], { current_wave: 5 }, 3);
  await ended("waking");
  await front.until(() => messages.length >= from + 3);
  expect(messages.slice(from).map(({ start_wave }) => start_wave)).toEqual([5, null, null]);
  const loads = messages.slice(from + 1).map(({ scheduler_stats: stats }) => stats as Record<string, number>);
  expect(loads.map(({ num_running_reqs }) => num_running_reqs)).toEqual([1, 0]);
  expect(messages.slice(from).every(({ engine_index, outputs }) => engine_index === 3 && outputs.length === 0)).toBe(
    true,
  );
});

test("a step of 3,000 requests is one whole message", async () => {
  const ids = Array.from({ length: 3000 }, (_, at) => `many-${at}-${"x".repeat(60)}`);
  for (const id of ids) front.add(id, { max_tokens: 20 }, [7], {}, 2);
  await front.until(() => ids.every((id) => front.ended.has(id)));
  const largest = Math.max(...front.messages.map(({ outputs }) => outputs.length));
  expect(largest).toBeGreaterThan(1500);
  const tokens = front.messages
    .flatMap(({ outputs }) => outputs)
    .filter((output) => String(output.request_id).startsWith("many"));
  expect(tokens.reduce((sum, { new_token_ids }) => sum + (new_token_ids as number[]).length, 0)).toBe(60_000);
});

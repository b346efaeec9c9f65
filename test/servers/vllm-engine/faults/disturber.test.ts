/** Tests plans of faults, and what becomes of the messages of an engine under them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type DisturbedFront, FrontDisturber } from "../../../../src/servers/vllm-engine/faults/disturber.ts";
import {
  FRONT_FAULT_NAMES,
  readFrontFaults,
  slownessOf,
} from "../../../../src/servers/vllm-engine/faults/front-faults.ts";
import {
  type EngineCoreOutput,
  type EngineCoreOutputs,
  PLAIN_OUTPUT,
  PLAIN_OUTPUTS,
} from "../../../../src/servers/vllm-engine/messages/outputs.ts";
import { seed, times } from "../../../size.ts";

const output = (id: string, token: number, finish: number | null = null): EngineCoreOutput => ({
  ...PLAIN_OUTPUT,
  request_id: id,
  new_token_ids: [token],
  finish_reason: finish,
});
const message = (...outputs: readonly EngineCoreOutput[]): EngineCoreOutputs => ({
  ...PLAIN_OUTPUTS,
  timestamp: 1,
  outputs,
  scheduler_stats: { num_running_reqs: outputs.length, kv_cache_usage: 0.5 } as EngineCoreOutputs["scheduler_stats"],
});

/** Sends messages under a plan. Returns what the front end gets, as `id token` per output, and other events as words. */
function sent(plan: string, messages: readonly EngineCoreOutputs[], ordered: Readonly<Record<string, string>> = {}) {
  const events: string[] = [];
  const stats: unknown[] = [];
  const front: DisturbedFront = {
    message(_, { outputs, utility_output, scheduler_stats }) {
      for (const { request_id, new_token_ids } of outputs) events.push(`${request_id} ${new_token_ids}`);
      if (utility_output !== null) events.push(`call ${utility_output.call_id}`);
      if (outputs.length > 0) stats.push(scheduler_stats?.num_running_reqs ?? null);
    },
    broken: (_, frame) => events.push(`broken ${Buffer.from(frame).toString("hex")}`),
    leave: (isDead) => events.push(isDead ? "dead" : "gone"),
  };
  const disturber = new FrontDisturber(readFrontFaults(plan || "rank-slow@9") ?? [], 1, 0, front);
  for (const [id, faults] of Object.entries(ordered)) disturber.order(id, readFrontFaults(faults)!);
  for (const one of messages) disturber.send(0, one);
  return { events, stats };
}

const steps = [
  message(output("a", 1), output("b", 1)),
  message(output("a", 2), output("b", 2)),
  message(output("a", 3, 1), output("b", 3)),
];

test.each<[string, readonly string[]]>([
  ["output-lost@3", ["a 1", "b 1", "b 2", "a 3", "b 3"]],
  ["output-twice@3", ["a 1", "b 1", "a 2", "b 2", "a 2", "a 3", "b 3"]],
  ["outputs-swapped@1", ["b 1", "a 2", "b 2", "a 1", "a 3", "b 3"]],
  ["output-after-finish", ["a 1", "b 1", "a 2", "b 2", "a 3", "b 3", "a 3"]],
  ["message-broken@2", ["a 1", "b 1", "broken c1", "a 3", "b 3"]],
  ["message-wrong@2", ["a 1", "b 1", "broken 91c0", "a 3", "b 3"]],
  ["engine-dead@2", ["a 1", "b 1", "dead"]],
  ["engine-gone@3", ["a 1", "b 1", "a 2", "b 2", "gone"]],
  ["output-lost@1;output-lost@2", ["a 2", "b 2", "a 3", "b 3"]],
])("under %s the front end gets %j", (plan, events) => {
  expect(sent(plan, steps).events).toEqual([...events]);
});

test("the steps of a rank take as many times as long as its faults say together", () => {
  const faults = readFrontFaults("rank-slow@1=4;rank-slow@1=2;rank-slow=1.5;output-lost@1")!;
  expect([0, 1].map((rank) => slownessOf(faults, rank))).toEqual([1.5, 12]);
});

test("statistics are frozen, absent or impossible from an occasion on", () => {
  const growing = [1, 2, 3].map((count) =>
    message(...Array.from({ length: count }, (_, at) => output(`r${at}`, count))),
  );
  expect(sent("stats-frozen@2", growing).stats).toEqual([1, 2, 2]);
  expect(sent("stats-absent@2", growing).stats).toEqual([1, null, null]);
  expect(sent("stats-impossible@3", growing).stats).toEqual([1, 2, 1e9]);
});

test("a call is not answered, or with the number of no call", () => {
  const answer = (call_id: number | bigint) => ({
    ...message(),
    utility_output: { call_id, failure: null, result: null },
  });
  const calls = [1, 2, 2n ** 63n].map(answer);
  expect(sent("utility-unanswered@2", calls).events).toEqual(["call 1", `call ${2n ** 63n}`]);
  const [first, ...others] = sent("utility-unknown-id@1", calls).events;
  expect(["call 1", "call 2", `call ${2n ** 63n}`]).not.toContain(first);
  expect(others).toEqual(["call 2", `call ${2n ** 63n}`]);
});

test("the faults that a request orders count its own outputs, and end with it", () => {
  expect(sent("", steps, { b: "output-twice@2" }).events).toEqual(["a 1", "b 1", "a 2", "b 2", "b 2", "a 3", "b 3"]);
  const again = [...steps, message(output("a", 9))];
  expect(sent("", again, { a: "output-lost@4" }).events).toEqual(sent("", again).events);
  expect(sent("", steps, { b: "engine-dead@2" }).events).toEqual(["a 1", "b 1", "dead"]);
});

test("a chance is drawn from the seed, and each output is sent or lost", () => {
  const many = Array.from({ length: 1000 }, (_, at) => message(output("a", at)));
  const { events } = sent("output-lost=0.25", many);
  expect(events.length).toBeGreaterThan(680);
  expect(events.length).toBeLessThan(820);
  expect(sent("output-lost=0.25", many).events).toEqual(events);
});

test.each([
  "",
  "output-lost@0",
  "output-lost=0",
  "output-lost=1.5",
  "output-lost@-1",
  "unknown",
  "rank-slow=1001",
  "output-lost@3;",
  "constructor",
  Array(65).fill("output-lost").join(";"),
])("the plan %j is refused", (plan) => {
  expect(readFrontFaults(plan)).toBeUndefined();
});

test("without a fault that is due, the front end gets what the engine sends", () => {
  const names = fc.constantFrom(...FRONT_FAULT_NAMES.filter((name) => name !== "rank-slow"));
  const ids = fc.constantFrom("a", "b", "c");
  const anyMessage = fc.uniqueArray(ids, { minLength: 1 }).map((all) => message(...all.map((id) => output(id, 1))));
  fc.assert(
    fc.property(names, fc.array(anyMessage, { maxLength: 8 }), (name, messages) => {
      expect(sent(`${name}@999`, messages)).toEqual(sent("", messages));
    }),
    { numRuns: times(50), seed },
  );
});

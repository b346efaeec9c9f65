/** Reading a body in pieces has the same result as in one go, the pieces are small, and the event loop turns between them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { dialectTables } from "../../../scripts/docs/dialect-tables.ts";
import { atOnceOrInTurns, firstOf, inTurns, type Pieces, Stops, turn } from "../../../src/base/pieces.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import type { AnswerContext } from "../../../src/servers/openai/pipeline/context.ts";
import { parsePython, plainPieces, pythonPieces } from "../../../src/servers/pydantic/json.ts";
import { chatPieces, completionPieces, readChat, readCompletion } from "../../../src/servers/vllm/openai/read.ts";
import { LIMITS } from "../../limits.ts";

const JSON_TYPE = "application/json";
const bytes = (body: unknown) => new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
const range = <T>(count: number, of: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => of(i));

/** Runs the work to its end. Returns its result and the number of its pieces. */
function counted<R>(work: Pieces<R>): { readonly result: R; readonly pieces: number } {
  for (let pieces = 1; ; pieces++) {
    const { done, value } = work.next();
    if (done) return { result: value, pieces };
  }
}

test("any JSON: reading in pieces returns the same as JSON.parse", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(2), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      expect(counted(plainPieces(text)).result).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  ['{"__proto__":{"a":1},"b":2}'],
  ['{"a":1,"b":2,"a":3}'],
  ["[1e400,-0,0.1,12345678901234567890]"],
  [`"${"a\\n\\ud83d\\ude00\\u0041".repeat(20_000)}"`],
  [`"${"a".repeat(200_000)}"`],
])("%.40s: the same as JSON.parse", (text) => {
  const { result } = counted(plainPieces(text));
  expect(result).toEqual(JSON.parse(text));
  expect(JSON.stringify(result)).toBe(JSON.stringify(JSON.parse(text)));
});

test.each([["NaN"], ["[1,]"], ["{"], ['"\n"'], ["[".repeat(1000) + "]".repeat(1000)]])(
  "%.20s: refused by the fast parser",
  (text) => {
    expect(() => counted(plainPieces(text))).toThrow();
  },
);

const tools = (count: number) => range(count, (i) => ({ type: "function", function: { name: `f${i}` } }));
const messages = [{ role: "user", content: "Hi" }];
const BODIES: readonly unknown[] = [
  { model: "m", messages },
  { model: "m", messages, tools: tools(100), tool_choice: "required", logit_bias: { 1: 2, 5: -3 } },
  { model: "m", messages, tools: range(100, (i) => (i === 70 ? { type: "function" } : tools(1)[0])) },
  { model: "m", messages, thinking_token_budget: 5, temperature: 1.0 },
  { model: "m", messages: range(50, () => ({ role: "user", content: 7 })) },
  { model: "other", messages },
  { model: "m", prompt: "Hi", logit_bias: { 1: 200 } },
  { model: "m", prompt: range(100, (i) => i), max_tokens: "x" },
  { model: "m", input: "Hi", tools: [{ type: "function", name: "f", parameters: {} }] },
  { model: "m", input: range(40, () => ({ role: "user", content: "Hi" })), temperature: "hot" },
  { model: "m", max_tokens: 5, messages, tools: [{ name: "f", input_schema: { type: "object" } }] },
  { model: "m", max_tokens: 5, messages, tools: range(40, () => ({ name: 5 })), tool_choice: { type: "any" } },
  { model: "m", max_tokens: 5, messages, tools: [{ name: "f", input_schema: {} }], tool_choice: { type: "tool" } },
  { model: "m", max_tokens: 5, messages: [{ role: "user", content: range(40, () => ({ type: "text", text: "Hi" })) }] },
  { model: "m", messages: [{ role: "user", content: range(40, (i) => ({ type: "text", text: i < 39 ? "Hi" : 5 })) }] },
  { model: "m", messages: range(100, () => ({ role: "user", content: [{ type: "nothing" }, 7] })) },
  [],
  '{"model":"m","messages":[}',
  "",
  "null",
];

test.each(BODIES.map((body) => [JSON.stringify(body).slice(0, 60), body] as const))("%s", (_, body) => {
  const input = [bytes(body), JSON_TYPE, LIMITS] as const;
  expect(counted(chatPieces(...input)).result).toEqual(readChat(...input));
  expect(counted(completionPieces(...input)).result).toEqual(readCompletion(...input));
  expect(counted(chatPieces(input[0], "text/plain", LIMITS)).result).toEqual(readChat(input[0], "text/plain", LIMITS));
  for (const { reader } of dialectTables) {
    const [whole, pieces] = [reader.read(...input), counted(reader.pieces!(...input)).result];
    if ("error" in whole) expect(pieces).toEqual(whole);
    else expect("request" in pieces && pieces.request).toEqual(whole.request);
  }
});

test("the number of pieces grows with the length of a list, so that a piece has a few dozen items at most", () => {
  for (const count of [1000, 4000]) {
    const chat = bytes({ model: "m", messages, tools: tools(count), tool_choice: "required" });
    expect(counted(chatPieces(chat, JSON_TYPE, LIMITS)).pieces).toBeGreaterThan(count / 16);
    const broken = bytes({ model: "m", messages, tools: range(count, () => 5) });
    expect(counted(chatPieces(broken, JSON_TYPE, LIMITS)).pieces).toBeGreaterThan(count / 16);
  }
  const text = JSON.stringify(`${'"'.repeat(1_000_000)}`);
  expect(counted(plainPieces(text)).pieces).toBeGreaterThan(30);
  expect(counted(pythonPieces(text)).pieces).toBeGreaterThan(30);
  expect(counted(pythonPieces(text)).result).toBe(parsePython(text));
});

test("the event loop turns only after a piece has used up its time", async () => {
  let nowUs = 0;
  let turnCount = 0;
  const turns = {
    nowUs: () => nowUs,
    after: (us: number, act: () => void) => {
      expect(us).toBe(0);
      turnCount++;
      queueMicrotask(act);
      return () => {};
    },
  };
  const work = function* (pieceUs: number): Pieces<string> {
    for (let i = 0; i < 100; i++, nowUs += pieceUs) yield;
    return "done";
  };
  expect(await inTurns(work(5), turns)).toBe("done");
  expect(turnCount).toBe(0);
  expect(await inTurns(work(100), turns)).toBe("done");
  expect(turnCount).toBeGreaterThan(5);
  expect(turnCount).toBeLessThan(15);
});

test("of a hundred jobs one has each turn, so that a callback that comes due waits for only one of them", async () => {
  const clock = new VirtualClock();
  const order: string[] = [];
  const after = (us: number, act: () => void) =>
    clock.at(clock.now() + us, () => {
      order.push("turn");
      act();
    });
  const turns = { nowUs: () => clock.now(), after };
  const done: number[] = [];
  const all = Promise.all(range(100, (i) => turn(turns).then(() => done.push(i))));
  clock.at(0, () => order.push("due"));
  clock.advanceTo(1);
  await all;
  expect(order.slice(0, 3)).toEqual(["turn", "due", "turn"]);
  expect(order).toHaveLength(101);
  expect(done).toEqual(range(100, (i) => i));
});

test.each([
  ["[".repeat(100_000) + "]".repeat(100_000), true],
  ["[".repeat(500) + "]".repeat(500), true],
  ["[".repeat(60) + "]".repeat(60), false],
  ["[".repeat(500), false],
  ["{".repeat(100_000), false],
])("a schema in a text, %.20s: refused if it nests too deeply for Python", (json, isDeep) => {
  const read = readChat(bytes({ model: "m", messages, structured_outputs: { json } }), JSON_TYPE, LIMITS);
  const message = "request" in read ? read.request.sampling.constraintError : null;
  expect(message?.startsWith("The JSON schema is nested too deeply") ?? false).toBe(isDeep);
});

test("the tools of a response are written once, in pieces, and shared by the events that repeat them", () => {
  const reader = dialectTables.find(({ path }) => path === "/v1/responses")!.reader;
  const functions = range(4000, (i) => ({ type: "function", name: `f${i}`, parameters: { type: "object" } }));
  const body = { model: "m", input: "Hi", tools: functions, tool_choice: "none", stream: true };
  const { result, pieces } = counted(reader.pieces!(bytes(body), JSON_TYPE, LIMITS));
  expect(pieces).toBeGreaterThan(5 * (4000 / 32));
  const context = { id: "resp_1", model: "m", created: 1, maxTokens: 5 } as AnswerContext;
  const [created, running] = "form" in result ? result.form.accepted(context) : [];
  const tools = (event: string) => JSON.parse(event.slice(event.indexOf("{"))).response.tools;
  expect(tools(created!)).toHaveLength(4000);
  expect(tools(running!)).toEqual(tools(created!));
  expect(tools(created!)[3999]).toMatchObject({ name: "f3999", parameters: { type: "object" } });
});

/** A clock of which each reading takes `lookUs` microseconds, and a counter of turns. */
function passing(lookUs: number) {
  let us = 0;
  const seen = {
    turns: 0,
    nowUs: () => (us += lookUs),
    after: (_: number, act: () => void) => {
      seen.turns++;
      queueMicrotask(act);
      return () => {};
    },
  };
  return seen;
}

function* counting(count: number): Pieces<number> {
  for (let at = 0; at < count; at++) yield;
  return count;
}

test("work of at most one piece returns at once, longer work a promise, with turns in between", async () => {
  const turns = passing(100);
  expect(atOnceOrInTurns(counting(5), turns)).toBe(5);
  expect(turns.turns).toBe(0);
  const long = atOnceOrInTurns(counting(100), turns);
  expect(long).toBeInstanceOf(Promise);
  expect(await long).toBe(100);
  expect(turns.turns).toBeWithin(5, 20);
  const fails = function* (): Pieces<never> {
    yield* counting(50);
    throw new Error("failed at the end");
  };
  await expect(async () => atOnceOrInTurns(fails(), turns)).toThrow("failed at the end");
});

test("between many short jobs the event loop turns once per millisecond of work", async () => {
  const turns = passing(100);
  const stops = new Stops(turns);
  for (let at = 0; at < 100; at++) await stops.look();
  expect(turns.turns).toBeWithin(5, 20);
});

test("firstOf returns the first result, in pieces", () => {
  const list = range(1000, (at) => at);
  const look = (item: number) => (item >= 700 ? `${item}` : undefined);
  const { result, pieces } = counted(firstOf(list, look));
  expect(result).toBe("700");
  expect(pieces).toBeGreaterThan(10);
  expect(counted(firstOf(list, () => undefined)).result).toBeUndefined();
});

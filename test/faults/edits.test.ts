/** Checks the events that faults write which users have met in practice. */
import { expect, test } from "bun:test";
import { parsePlan } from "../../src/faults/parse.ts";
import { FaultPipeline } from "../../src/faults/pipeline.ts";
import { HEAD } from "./streams.ts";
import { bytesOf, run } from "./wire.ts";

const chunk = (delta: object, reason: string | null = null) =>
  `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
const DONE = "data: [DONE]\n\n";
const opening = (index: number) =>
  chunk({
    tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name: `f${index}`, arguments: "" } }],
  });
const part = (index: number, args: string) => chunk({ tool_calls: [{ index, function: { arguments: args } }] });
const CALLS = [
  ...[opening(0), part(0, '{"a": '), part(0, "1}"), opening(1), part(1, '{"b": {}'), part(1, "}")],
  ...[chunk({}, "tool_calls"), DONE],
];
const TEXT = [chunk({ role: "assistant", content: "" }), ...["Say", " it", "."].map((content) => chunk({ content }))];
const REASONED = [chunk({ reasoning: "Be" }), chunk({ reasoning: " brief." }), ...TEXT, chunk({}, "stop"), DONE];

/** Returns the body that a plan makes of the events, without chunk framing. */
function bodyOf(plan: string, events: readonly string[]): string {
  const text = bytesOf(run(new FaultPipeline(parsePlan(plan), "k"), { head: HEAD, events, streams: true })).toString();
  const body = text.slice(text.indexOf("\r\n\r\n") + 4);
  return body.replace(/(^|\r\n)[0-9a-f]+\r\n/g, "").replace(/\r\n$/, "");
}

const deltasOf = (body: string) =>
  body
    .split("\n\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)).choices[0].delta);
const callsOf = (plan: string) => deltasOf(bodyOf(plan, CALLS)).flatMap(({ tool_calls: calls = [] }) => calls);

test("J16 writes tool-call deltas without function, with blank or null fields, with all fields, and with objects", () => {
  const first = { index: 0, id: "call_0", type: "function" };
  expect(callsOf("J16,no-function").slice(0, 3)).toEqual([
    first,
    { index: 0, function: { name: "f0", arguments: "" } },
    { index: 0, function: { arguments: '{"a": ' } },
  ]);
  for (const [variant, empty] of [
    ["blank", ""],
    ["null", null],
  ] as const)
    expect(callsOf(`J16,${variant}`).slice(0, 2)).toEqual([
      { ...first, function: { name: "f0", arguments: "" } },
      { index: 0, id: empty, type: empty, function: { name: empty, arguments: '{"a": ' } },
    ]);
  expect(callsOf("J16,each").every(({ id, type, function: { name } }) => id && type && name)).toBe(true);
  expect(callsOf("J16,each").map(({ id }) => id)).toEqual([0, 0, 0, 1, 1, 1].map((index) => `call_${index}`));
  expect(callsOf("J16,object")).toEqual([
    { ...first, function: { name: "f0", arguments: { a: 1 } } },
    { index: 1, id: "call_1", type: "function", function: { name: "f1", arguments: { b: {} } } },
  ]);
});

test("J16,object sends an empty object if arguments never become JSON, and counts all events", () => {
  const broken = [opening(0), part(0, '{"a": '), chunk({}, "tool_calls"), DONE];
  const [call] = deltasOf(bodyOf("J16,object", broken)).flatMap(({ tool_calls: calls = [] }) => calls);
  expect(call.function).toEqual({ name: "f0", arguments: {} });
  const pipeline = new FaultPipeline(parsePlan("J16,object"), "k");
  run(pipeline, { head: HEAD, events: CALLS, streams: true });
  const { came, dropped, whole, cut } = pipeline.account();
  expect([came, dropped + whole + cut]).toEqual([CALLS.length, CALLS.length]);
});

test("S15 cuts an event inside its JSON, and the next event follows on the same line", () => {
  const lines = bodyOf("S15@e1", REASONED).split("\n");
  const odd = lines.find((line) => line.lastIndexOf("data: ") > 0)!;
  expect(odd).toMatch(/^data: \{.*data: \{.*\}$/);
  expect(odd.endsWith(TEXT[0]!.trim())).toBe(true);
  expect(bodyOf("S15@e1+20", REASONED)).toContain(`${REASONED[1]!.slice(0, 20)}data: `);
});

test("S16 writes a type without data, and J1,bare JSON without data: and then ends", () => {
  expect(bodyOf("S16@e1", REASONED)).toBe([REASONED[0], "event: ping\n\n", ...REASONED.slice(1)].join(""));
  const body = bodyOf("J1@e3,bare", REASONED);
  expect(body.startsWith(REASONED.slice(0, 3).join(""))).toBe(true);
  expect(JSON.parse(body.slice(REASONED.slice(0, 3).join("").length)).error.code).toBe(500);
});

test("J17 repeats the text so far in each chunk, for each field separately", () => {
  const deltas = deltasOf(bodyOf("J17", REASONED));
  expect(deltas.flatMap(({ content }) => content || [])).toEqual(["Say", "Say it", "Say it."]);
  expect(deltas.flatMap(({ reasoning }) => reasoning ?? [])).toEqual(["Be", "Be brief."]);
});

test("J18 writes reasoning before each piece of text, and J19 the old name of its field, or both names", () => {
  const kinds = deltasOf(bodyOf("J18", [...TEXT, chunk({}, "stop"), DONE])).map((delta) => Object.keys(delta).at(-1));
  expect(kinds).toEqual(["content", "reasoning", "content", "reasoning", "content", "reasoning", "content", undefined]);
  expect(deltasOf(bodyOf("J19,old", REASONED))[0]).toEqual({ reasoning_content: "Be" });
  expect(deltasOf(bodyOf("J19,both", REASONED))[1]).toEqual({ reasoning: " brief.", reasoning_content: " brief." });
  const old = [chunk({ content: "", reasoning_content: "Be" }), chunk({ content: "Say", reasoning_content: "" }), DONE];
  expect(deltasOf(bodyOf("J19,both", old))[0]).toEqual({ content: "", reasoning: "Be", reasoning_content: "Be" });
  expect(bodyOf("J19,old", old)).toBe(old.join(""));
  expect(deltasOf(bodyOf("J18", old))[1]).toEqual({ reasoning_content: "Step 1. " });
  expect(deltasOf(bodyOf("J19,both", REASONED))[3]).toEqual({ content: "Say" });
});

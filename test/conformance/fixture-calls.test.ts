/**
 * Tests tool calls that fixtures order: they are written in the format of the server's parser, and the parser finds them, in
 * each dialect.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { idsOf } from "../../src/base/random.ts";
import type { ToolUse } from "../../src/servers/openai/tool-calls/output.ts";
import { OutputParser } from "../../src/servers/openai/tool-calls/output-parser.ts";
import { toolParserKind } from "../../src/servers/openai/tool-calls/tool-parsers.ts";
import { orderedCallsText } from "../../src/text/grammar/given-call.ts";
import { TOOL_FORMATS } from "../../src/text/grammar/parsers.ts";
import { vocabularyOf } from "../../src/text/tokens/vocabulary.ts";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(60_000);

const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, ids: { type: "array", items: { type: "integer" } } },
};
const GIVEN = { city: 'Rome "x"\n<b>', ids: [1, 2] };
const TOOLS = ["look", "close"].map((name) => ({ type: "function", function: { name, parameters: PARAMETERS } }));
const BROKEN = '{"city": "Rome", ';

const fixtures = [
  { match: { user: "two" }, answer: { tool_calls: [{ name: "look", arguments: GIVEN }, { name: "close" }] } },
  { match: { user: "front" }, answer: { text: "Let me see. ", tool_calls: [{ name: "look", arguments: GIVEN }] } },
  { match: { user: "text" }, answer: { tool_calls: [{ name: "look", arguments: '{"city":   "Rome"}' }] } },
  { match: { user: "broken" }, answer: { tool_calls: [{ name: "look", arguments: BROKEN }] } },
  {
    match: { user: "parts" },
    answer: {
      parts: [
        { reasoning: "Hm. " },
        { content: "I look. <tool_call> is text here. " },
        { tool_calls: [{ name: "look", arguments: GIVEN }] },
        { reasoning: "And then? " },
        { tool_calls: [{ name: "close" }] },
      ],
    },
  },
];

const folder = mkdtempSync(join(tmpdir(), "understudy-calls-"));
const servers: Record<string, HostedServer> = {};
beforeAll(async () => {
  writeFileSync(join(folder, "calls.yaml"), JSON.stringify({ fixtures }));
  const flags = ["--timing", "none", "--served-model-name", "m", "--fixtures", folder];
  const auto = ["--enable-auto-tool-choice", "--tool-call-parser"];
  servers.hermes = await hosted([...flags, ...auto, "hermes", "--reasoning-parser", "qwen3"]);
  servers.qwen = await hosted([...flags, ...auto, "qwen3_coder"]);
  servers.kimi = await hosted([...flags, ...auto, "kimi_k2"]);
  servers.none = await hosted(flags);
  servers.trtllm = await hosted([...flags, "--role", "trtllm-serve", "--tool_parser", "qwen3"]);
});
afterAll(async () => {
  await Promise.all(Object.values(servers).map((server) => server.stop()));
  rmSync(folder, { recursive: true });
});

interface Call {
  readonly index: number;
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

async function post(server: string, path: string, body: object) {
  const response = await fetch(servers[server]!.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", max_tokens: 400, ...body }),
  });
  expect(response.status).toBe(200);
  return response;
}

const chat = (server: string, user: string, more: object = { tools: TOOLS }) =>
  post(server, "/v1/chat/completions", { messages: [{ role: "user", content: user }], ...more });

async function messageOf(server: string, user: string, more?: object) {
  const { choices } = (await (await chat(server, user, more)).json()) as { choices: { message: object }[] };
  const { message, finish_reason: finish } = choices[0] as never as {
    message: { content: string | null; reasoning?: string; tool_calls?: Call[] };
    finish_reason: string;
  };
  const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: args } }) => [name, args]);
  return { ...message, calls, finish };
}

const eventsOf = async (response: Response) =>
  (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));

/** Reads a stream and joins its chunks like a client. */
async function streamedOf(server: string, user: string, more: object = { tools: TOOLS }) {
  const events = await eventsOf(await chat(server, user, { ...more, stream: true }));
  const [content, reasoning, calls]: [string[], string[], [string, string][]] = [[], [], []];
  for (const { choices } of events)
    for (const { delta } of choices) {
      content.push(delta.content ?? "");
      reasoning.push(delta.reasoning ?? "");
      for (const { index, function: part } of (delta.tool_calls ?? []) as Call[]) {
        calls[index] ??= ["", ""];
        calls[index]![0] += part.name ?? "";
        calls[index]![1] += part.arguments ?? "";
      }
    }
  return { content: content.join(""), reasoning: reasoning.join(""), calls, finish: finishOf(events) };
}
const finishOf = (events: { choices: { finish_reason: string | null }[] }[]) =>
  events.flatMap(({ choices }) => choices.flatMap(({ finish_reason: finish }) => finish ?? [])).at(-1);

const parsed = (calls: readonly (readonly string[])[]) => calls.map(([name, args]) => [name, JSON.parse(args!)]);
const TWO = [
  ["look", GIVEN],
  ["close", {}],
];

test.each(["hermes", "qwen", "kimi", "trtllm"])(
  "two calls, whole and streamed, of a server with %s",
  async (server) => {
    const whole = await messageOf(server, "two");
    expect([parsed(whole.calls), whole.content || null, whole.finish]).toEqual([TWO, null, "tool_calls"]);
    const stream = await streamedOf(server, "two");
    expect([parsed(stream.calls), stream.content, stream.finish]).toEqual([TWO, "", "tool_calls"]);
  },
);

test("calls may follow a text, and arguments may be a literal text", async () => {
  const front = await messageOf("hermes", "front");
  expect([front.content?.trim(), parsed(front.calls)]).toEqual(["Let me see.", TWO.slice(0, 1)]);
  expect((await streamedOf("hermes", "text")).calls).toEqual([["look", '{"city":   "Rome"}']]);
  // A format without JSON writes the members; the client gets JSON again.
  expect(parsed((await messageOf("qwen", "text")).calls)).toEqual([["look", { city: "Rome" }]]);
});

test("arguments of broken JSON reach a client's stream unchanged", async () => {
  const { calls } = await streamedOf("kimi", "broken");
  expect(calls).toEqual([["look", BROKEN]]);
  expect((await messageOf("none", "broken", {})).content).toContain(`"arguments": ${BROKEN}}`);
});

test("kimi_k2 numbers calls across the conversation", async () => {
  const earlier = [{ id: "a", type: "function", function: { name: "look", arguments: "{}" } }];
  const messages = [
    { role: "user", content: "Go" },
    { role: "assistant", tool_calls: earlier },
    { role: "tool", tool_call_id: "a", content: "1" },
    { role: "user", content: "two" },
  ];
  const { tool_calls: calls } = await messageOf("kimi", "", { messages, tools: TOOLS });
  expect(calls!.map(({ id }) => id)).toEqual(["functions.look:1", "functions.close:2"]);
});

test("without tools or a parser, the text of the calls is content", async () => {
  const text = '<tool_call>\n{"name": "close", "arguments": {}}\n</tool_call>';
  const { content, calls, finish } = await messageOf("none", "two", {});
  expect([content!.endsWith(text), calls, finish]).toEqual([true, [], "stop"]);
  expect((await streamedOf("none", "two", {})).content).toBe(content!);
  const noTools = await messageOf("hermes", "two", {});
  expect([noTools.content!.endsWith(text), noTools.calls]).toEqual([true, []]);
});

test("the parser finds calls in parts, and ignores parts of content and reasoning", async () => {
  const content = "I look. <tool_call> is text here. ";
  const whole = await messageOf("hermes", "parts");
  expect([whole.reasoning, whole.content, parsed(whole.calls), whole.finish]).toEqual([
    "Hm. And then? ",
    content,
    TWO,
    "tool_calls",
  ]);
  const stream = await streamedOf("hermes", "parts");
  expect([stream.reasoning, stream.content, parsed(stream.calls)]).toEqual(["Hm. And then? ", content, TWO]);
  const plain = await messageOf("none", "parts", {});
  expect([plain.reasoning, plain.content!.startsWith(`${content}<tool_call>`)]).toEqual(["Hm. And then? ", true]);
});

test("messages have blocks of type tool_use, whole and streamed", async () => {
  const tools = TOOLS.map(({ function: { name, parameters } }) => ({ name, input_schema: parameters }));
  const body = { messages: [{ role: "user", content: "two" }], tools };
  const { content, stop_reason: reason } = (await (await post("hermes", "/v1/messages", body)).json()) as never as {
    content: { type: string; name: string; input: object }[];
    stop_reason: string;
  };
  const used = content.filter(({ type }) => type === "tool_use");
  expect([used.map(({ name, input }) => [name, input]), reason]).toEqual([TWO, "tool_use"]);
  const events = await eventsOf(await post("hermes", "/v1/messages", { ...body, stream: true }));
  const json = events.flatMap(({ delta }) => (delta?.type === "input_json_delta" ? [delta.partial_json] : [])).join("");
  expect(json).toBe(`${JSON.stringify(GIVEN).replaceAll('":', '": ').replaceAll(",", ", ")}{}`);
});

test("responses have items of type function_call, whole and streamed", async () => {
  const tools = TOOLS.map(({ function: shape }) => ({ type: "function", ...shape }));
  const body = { input: "two", tools, max_output_tokens: 400, max_tokens: undefined };
  const { output } = (await (await post("hermes", "/v1/responses", body)).json()) as never as {
    output: { type: string; name: string; arguments: string }[];
  };
  const callsIn = (items: typeof output) =>
    parsed(items.filter(({ type }) => type === "function_call").map((item) => [item.name, item.arguments]));
  expect(callsIn(output)).toEqual(TWO);
  const events = await eventsOf(await post("hermes", "/v1/responses", { ...body, stream: true }));
  expect(callsIn(events.at(-1).response.output)).toEqual(TWO);
});

test("an answer has at most 128 calls, whose arguments nest at most 64 levels", async () => {
  const nested = (levels: number) => JSON.parse(`${'{"x":'.repeat(levels)}1${"}".repeat(levels)}`);
  const order = async (calls: readonly object[]) => {
    const response = await fetch(`${servers.kimi!.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        ...{ model: "m", max_tokens: 4000, messages: [{ role: "user", content: "x" }], tools: TOOLS },
        understudy: { script: { parts: [{ tool_calls: calls }] } },
      }),
    });
    const { choices } = (await response.json()) as { choices?: { message: { tool_calls: object[] } }[] };
    return [response.status, choices?.[0]?.message.tool_calls.length];
  };
  const many = (count: number) => Array.from({ length: count }, () => ({ name: "close" }));
  expect([await order(many(128)), await order(many(129))]).toEqual([
    [200, 128],
    [400, undefined],
  ]);
  expect([await order([{ name: "close", arguments: nested(64) }])][0]).toEqual([200, 1]);
  expect((await order([{ name: "close", arguments: nested(65) }]))[0]).toBe(400);
});

/** A vocabulary with one token per byte. */
const bytes = vocabularyOf(
  Array.from({ length: 257 }, (_, byte) => new Uint8Array(byte < 256 ? [byte] : [])),
  new Set([256]),
  256,
);
const use: ToolUse = {
  tools: TOOLS.map(({ function: { name, parameters } }) => ({ name, parameters })),
  choice: "auto",
  parallel: true,
  autoEnabled: true,
};

test.each(TOOL_FORMATS)(
  "%s: arguments as an object and as JSON text give the same call, and the parser reads both",
  (format) => {
    const kind = toolParserKind(format, bytes, idsOf(null));
    for (const isText of [false, true]) {
      const calls = [{ name: "look", arguments: JSON.stringify(GIVEN), isText }];
      const text = orderedCallsText(format, { text: "", spaced: true }, calls);
      const message = new OutputParser(use, kind.make(use)).message(text);
      expect(parsed(message.calls.map(({ name, arguments: args }) => [name, args]))).toEqual(TWO.slice(0, 1));
    }
  },
);

test.each(TOOL_FORMATS)("%s: arguments that are not JSON stay in the text unchanged, and no parser fails", (format) => {
  const kind = toolParserKind(format, bytes, idsOf(null));
  for (const args of [BROKEN, "", "no JSON at all", "[1]", "}}}", "[".repeat(100_000)]) {
    const calls = [{ name: "look", arguments: args, isText: true }];
    const text = orderedCallsText(format, { text: "", spaced: true }, calls);
    expect(text).toContain(args);
    expect(() => new OutputParser(use, kind.make(use)).message(text)).not.toThrow();
  }
});

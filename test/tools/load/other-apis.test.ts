/** Tests answers of responses, messages and embeddings: complete, failed, and without the last event of their API. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Patterns } from "../../../src/tools/load/answers/answer.ts";
import type { LoadDialect } from "../../../src/tools/load/requests/dialects.ts";
import { flatKeys } from "../../../src/tools/load/vllm-keys.ts";
import { loadOn } from "./loaded.ts";
import { bytesOf, chunk, END, HEAD, read, recordOf } from "./played.ts";
import { type RawServer, rawServer } from "./raw-server.ts";

setDefaultTimeout(20_000);

let server: RawServer | null = null;
afterEach(() => server?.stop());

type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

const named = (value: Event): string => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const unnamed = (value: Event): string => `data: ${JSON.stringify(value)}\n\n`;
const body = (...parts: readonly string[]): string => HEAD + chunk(parts.join("")) + END;
const whole = (value: object): string => {
  const text = JSON.stringify(value);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};

function answerOf(dialect: LoadDialect, text: string, more: Parameters<typeof read>[1] = {}) {
  const { exchange } = read([[5, bytesOf(text)]], { dialect, closes: true, keepText: true, ...more });
  return exchange.answer;
}

const RESPONSE_USAGE = {
  input_tokens: 7,
  input_tokens_details: { cached_tokens: 3 },
  output_tokens: 2,
  total_tokens: 9,
};
const delta = (text: string, kind = "output_text", at = 4): Event => ({
  content_index: 0,
  delta: text,
  item_id: "msg_1",
  logprobs: [],
  output_index: 0,
  sequence_number: at,
  type: `response.${kind}.delta`,
});
const response = (more: object = {}) => ({ id: "r", object: "response", status: "in_progress", error: null, ...more });
const ended = (type: string, more: object = {}): Event => ({
  response: response({ status: type, usage: RESPONSE_USAGE, ...more }),
  sequence_number: 9,
  type: `response.${type}`,
});
const PREAMBLE: readonly Event[] = [
  { type: "response.created", response: response() },
  { type: "response.in_progress", response: response() },
  { type: "response.output_item.added", item: { id: "msg_1", type: "message", status: "in_progress", content: [] } },
  { type: "response.content_part.added", part: { type: "output_text", text: "" } },
];
const PART_DONE: readonly Event[] = [
  { type: "response.output_text.done", text: "ab" },
  { type: "response.content_part.done", part: { type: "output_text", text: "ab" } },
  { type: "response.output_item.done", item: { id: "msg_1", type: "message", status: "completed" } },
];
const COMPLETED = ended("completed");
const DELTAS = [delta("a"), delta("b", "output_text", 5)];

const MESSAGE_START: Event = {
  type: "message_start",
  message: { id: "m", type: "message", content: [], stop_reason: null, usage: { input_tokens: 4, output_tokens: 1 } },
};
const block = (content: Event): Event => ({ type: "content_block_start", index: 0, content_block: content });
const blockDelta = (kind: string, member: string, text: string): Event => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: kind, [member]: text },
});
const textDelta = (text: string): Event => blockDelta("text_delta", "text", text);
const stop = (reason: string | null): Event => ({
  type: "message_delta",
  delta: { stop_reason: reason, stop_sequence: null },
  usage: { input_tokens: 4, cache_read_input_tokens: 2, cache_creation_input_tokens: 1, output_tokens: 2 },
});
const MESSAGE_STOP: Event = { type: "message_stop" };
const MESSAGE: readonly Event[] = [
  MESSAGE_START,
  { type: "ping" },
  block({ type: "text", text: "" }),
  textDelta("a"),
  textDelta("b"),
  { type: "content_block_stop", index: 0 },
];

describe("a complete stream is read with its tokens, text and usage, with and without event names", () => {
  test.each([
    ["openai-responses", [...PREAMBLE, ...DELTAS, ...PART_DONE, COMPLETED], 7, 3],
    ["anthropic-messages", [...MESSAGE, stop("end_turn"), MESSAGE_STOP], 7, 2],
  ] as const)("%s", (dialect, events, prompt, cached) => {
    for (const form of [named, unnamed]) {
      const text = events.map(form).join("");
      for (const lineEnd of ["\n", "\r\n"]) {
        const answer = answerOf(dialect, body(text.replaceAll("\n", lineEnd), "data: [DONE]\n\n"));
        expect(answer).toMatchObject({ failure: null, chunks: 2, text: "ab", finished: true, done: true });
        expect([answer.promptTokens, answer.outputTokens, answer.cachedTokens]).toEqual([prompt, 2, cached]);
      }
    }
  });

  test.each([
    ["openai-responses", (text: string, at: number) => delta(text, "output_text", at), [COMPLETED]],
    ["anthropic-messages", textDelta, [stop("end_turn"), MESSAGE_STOP]],
  ] as const)("%s: an event that is read by its pattern counts like the first event", (dialect, token, ends) => {
    for (const form of [named, unnamed]) {
      const patterns = new Patterns();
      const texts = ["a", 'q"uote', "\u4e2d", "", "z"];
      const events = body(...texts.map((text, at) => form(token(text, at + 40))), ...ends.map(form));
      const [first, second] = [0, 1].map(() => answerOf(dialect, events, { patterns, keepText: false }));
      // A delta without text is not output.
      expect([first!.chunks, second!.chunks, second!.failure]).toEqual([4, 4, null]);
      const bytes = bytesOf(form(token("x", 7)));
      expect(patterns.match(bytes, 0, bytes.length)?.[1]).toBe(bytes.length);
      const empty = bytesOf(form(token("", 7)));
      expect(patterns.match(empty, 0, empty.length)).toBeNull();
    }
  });
});

test("reasoning, refusals and calls are output; items, parts, signatures and tool output are not", () => {
  const outputs = (dialect: LoadDialect, ...events: readonly Event[]) =>
    answerOf(dialect, body(...events.map(named))).chunks;
  const kinds = [
    "reasoning_text",
    "reasoning_summary_text",
    "refusal",
    "function_call_arguments",
    "custom_tool_call_input",
  ];
  for (const kind of kinds) expect([kind, outputs("openai-responses", delta("x", kind))]).toEqual([kind, 1]);
  const call = { type: "response.output_item.added", item: { type: "function_call", name: "f", arguments: "" } };
  expect(outputs("openai-responses", call)).toBe(1);
  const silent = [...PREAMBLE, ...PART_DONE, delta("x", "shell_call_output_content"), delta("")];
  expect(outputs("openai-responses", ...silent)).toBe(0);
  const thinking = [block({ type: "thinking", thinking: "" }), blockDelta("thinking_delta", "thinking", "hm")];
  expect(outputs("anthropic-messages", ...thinking, blockDelta("signature_delta", "signature", "s"))).toBe(1);
  const input = [
    block({ type: "tool_use", id: "t", name: "f", input: {} }),
    blockDelta("input_json_delta", "partial_json", "{}"),
  ];
  expect(outputs("anthropic-messages", ...input, blockDelta("input_json_delta", "partial_json", ""))).toBe(2);
  expect(outputs("anthropic-messages", MESSAGE_START, block({ type: "text", text: "" }), textDelta(""))).toBe(0);
});

type Row = readonly [name: string, events: readonly Event[], kind: string | null, says: RegExp];

const RESPONSES: readonly Row[] = [
  ["without a terminal event", [...DELTAS, ...PART_DONE], "incomplete", /without response\.completed/],
  [
    "incomplete at its limit",
    [...DELTAS, ended("incomplete", { incomplete_details: { reason: "max_output_tokens" } })],
    null,
    /^$/,
  ],
  ["incomplete without a reason, as trtllm-serve", [...DELTAS, ended("incomplete")], null, /^$/],
  [
    "completed with the status incomplete, as vLLM",
    [...DELTAS, ended("completed", { status: "incomplete" })],
    null,
    /^$/,
  ],
  [
    "incomplete by a filter",
    [...DELTAS, ended("incomplete", { incomplete_details: { reason: "content_filter" } })],
    "incomplete",
    /content_filter/,
  ],
  [
    "failed",
    [...DELTAS, ended("failed", { error: { code: "server_error", message: "gone" } })],
    "error event",
    /^gone$/,
  ],
  [
    "failed before a token",
    [ended("failed", { error: { code: "server_error", message: "gone" } })],
    "error event",
    /^gone$/,
  ],
  ["failed without an error", [...DELTAS, ended("failed")], "error event", /failed/],
  ["completed with the status failed", [...DELTAS, ended("completed", { status: "failed" })], "error event", /failed/],
  ["cancelled", [...DELTAS, ended("cancelled")], "error event", /cancelled/],
  [
    "an error event, then completed",
    [...DELTAS, { type: "error", message: "gone", code: "x" }, COMPLETED],
    "error event",
    /^gone$/,
  ],
  ["completed without output", [...PREAMBLE, COMPLETED], "no token", /before its first token/],
  ["a failed tool, then completed", [...DELTAS, { type: "response.mcp_call.failed" }, COMPLETED], null, /^$/],
  ["an error after the end", [...DELTAS, COMPLETED, { type: "error", message: "late" }], null, /^$/],
  ["events of other names", [...DELTAS, { type: "keepalive" }, { type: "response.new" }, COMPLETED], null, /^$/],
];

const MESSAGES: readonly Row[] = [
  ["without message_stop", [...MESSAGE, stop("end_turn")], "incomplete", /without message_stop/],
  ["without both ends", [...MESSAGE], "incomplete", /without message_stop/],
  ["without a stop_reason", [...MESSAGE, stop(null), MESSAGE_STOP], "incomplete", /without a stop_reason/],
  ["at its limit", [...MESSAGE, stop("max_tokens"), MESSAGE_STOP], null, /^$/],
  [
    "an error event",
    [...MESSAGE, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }],
    "error event",
    /^Overloaded$/,
  ],
  [
    "an error event, then the end",
    [...MESSAGE, { type: "error", error: { message: "gone" } }, stop("end_turn"), MESSAGE_STOP],
    "error event",
    /^gone$/,
  ],
  ["no content", [MESSAGE_START, stop("end_turn"), MESSAGE_STOP], "no token", /before its first token/],
  ["unknown events", [...MESSAGE, { type: "content_block_note" }, stop("end_turn"), MESSAGE_STOP], null, /^$/],
];

describe.each([
  ["openai-responses", RESPONSES],
  ["anthropic-messages", MESSAGES],
] as const)("%s", (dialect, rows) => {
  test.each(rows)("%s: the answer has the expected failure or none", (_, events, kind, says) => {
    for (const form of [named, unnamed]) {
      const { failure } = answerOf(dialect, body(...events.map(form)));
      expect(failure?.kind ?? null).toBe(kind as never);
      expect(failure?.message ?? "").toMatch(says);
    }
  });

  test.each([
    ["an OpenAI error", 'data: {"error":{"message":"gone"}}\n\n'],
    ["a gateway's error", 'data: {"detail":"gone"}\n\n'],
    ["a text with the type error", "event: error\ndata: gone\n\n"],
  ])("%s in place of an event is reported as an error", (_, text) => {
    const first = (dialect === "openai-responses" ? DELTAS : MESSAGE).map(named);
    const { failure } = answerOf(dialect, body(...first, text));
    expect(failure).toEqual({ kind: "error event", message: "gone" });
  });

  test("[DONE] in place of the API's last event, and a connection that is cut", () => {
    const first = (dialect === "openai-responses" ? DELTAS : [...MESSAGE, stop("end_turn")]).map(named);
    expect(answerOf(dialect, body(...first, "data: [DONE]\n\n")).failure?.kind).toBe("incomplete");
    expect(answerOf(dialect, HEAD + chunk(first.join(""))).failure?.kind).toBe("mid-stream end");
  });
});

type AnswerCase = readonly [dialect: LoadDialect, value: object, kind: string | null];
const OUTPUT = [
  { type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }] },
  { type: "message", content: [{ type: "output_text", text: "ab" }] },
];
const CONTENT = [
  { type: "thinking", thinking: "hm" },
  { type: "text", text: "ab" },
];
const VECTOR = { object: "list", data: [{ index: 0, object: "embedding", embedding: [0.5, -0.5] }] };
const WHOLES: readonly AnswerCase[] = [
  ["openai-responses", response({ status: "completed", output: OUTPUT, usage: RESPONSE_USAGE }), null],
  ["openai-responses", response({ status: "incomplete", output: OUTPUT, usage: RESPONSE_USAGE }), null],
  ["openai-responses", response({ status: "failed", output: [], error: { message: "gone" } }), "error event"],
  ["openai-responses", response({ status: "in_progress", output: OUTPUT }), "error event"],
  ["openai-responses", response({ status: "completed", output: [] }), "no token"],
  ["openai-responses", { choices: [] }, "malformed"],
  ["openai-responses", { detail: "gone" }, "error event"],
  ["anthropic-messages", { type: "message", content: CONTENT, stop_reason: "end_turn" }, null],
  ["anthropic-messages", { type: "message", content: CONTENT, stop_reason: null }, "incomplete"],
  ["anthropic-messages", { type: "message", content: [], stop_reason: "end_turn" }, "no token"],
  ["anthropic-messages", { type: "error", error: { type: "api_error", message: "gone" } }, "error event"],
  ["anthropic-messages", { choices: [] }, "malformed"],
  ["openai-embeddings", { ...VECTOR, usage: { prompt_tokens: 4 } }, null],
  ["openai-embeddings", { ...VECTOR, data: [{ embedding: "AAAAPwAAAL8=" }] }, null],
  ["openai-embeddings", { ...VECTOR, data: [] }, "malformed"],
  ["openai-embeddings", { ...VECTOR, data: [{ embedding: [] }] }, "malformed"],
  ["openai-embeddings", { ...VECTOR, error: { message: "gone" } }, "error event"],
  ["openai-embeddings", { detail: "gone" }, "error event"],
];

test.each(WHOLES)("an answer in one piece has the expected failure or none, %s: %j", (dialect, value, kind) => {
  const answer = answerOf(dialect, whole(value), { stream: false });
  expect(answer.failure?.kind ?? null).toBe(kind as never);
  if (kind === null)
    expect([answer.finished, answer.text]).toEqual([true, dialect === "openai-embeddings" ? "" : "ab"]);
});

test("in vLLM's keys a response ends with its last event, in ours with its last token", () => {
  const pieces = [HEAD, ...[...DELTAS, COMPLETED].map((event) => chunk(named(event))), END];
  const { exchange } = read(
    pieces.map((text, i) => [i * 100_000, bytesOf(text)] as const),
    { dialect: "openai-responses" },
  );
  const record = exchange.answer.record({
    order: { index: 0, requestId: "r", intendedUs: 0, turn: { outputTokens: 2 } as never, disturb: null },
    ...{ originUs: 0, sendUs: 0, endUs: exchange.endUs, status: 200, retries: 0 },
  });
  expect([record.firstUs, record.lastUs, record.finishedUs, record.endUs]).toEqual([1e5, 2e5, 3e5, 4e5]);
  const options = { dialect: "openai-responses", metrics: ["e2el", "tpot"], percentiles: [50] } as const;
  const keys = flatKeys([record], { ...options, slo: null, concurrency: null, rate: 1, detailed: false, durationS: 1 });
  expect([keys.mean_e2el_ms, keys.mean_tpot_ms]).toEqual([300, 200]);
});

test("streams count as complete, failed or incomplete, with the missing end in the warning", async () => {
  const streams = [
    body(...[...DELTAS, COMPLETED].map(named)),
    body(...DELTAS.map(named)),
    body(...[...DELTAS, ended("failed")].map(named)),
  ];
  let next = 0;
  server = rawServer((_, wire) => wire.send(streams[next++ % streams.length]!));
  const { result } = await loadOn(server, { count: 6, dialect: "openai-responses" });
  const { counts, errors, warnings = [] } = result.understudy as unknown as Record<string, never[]>;
  expect(counts).toMatchObject({ completed: 2, failed: 2, incomplete: 2 });
  expect(errors).toEqual({ incomplete: 2, "error event": 2 } as never);
  expect(warnings.join("\n")).toContain("2 streams ended without response.completed: they count as incomplete");
  expect(warnings.join("\n")).not.toContain("[DONE]");
  server.stop();
  server = rawServer((_, wire) => wire.send(body(...[...MESSAGE, stop("end_turn")].map(named))));
  const messages = await loadOn(server, { count: 2, dialect: "anthropic-messages" });
  expect(messages.nothing).toContain("incomplete: the stream ended without message_stop");
  expect(messages.result.understudy.warnings?.join("\n")).toContain(
    "2 streams ended without a stop_reason and message_stop",
  );
});

test("an embedding has no TTFT and ends with the last byte of its answer", () => {
  const { exchange } = read([[700, bytesOf(whole(VECTOR))]], { dialect: "openai-embeddings", stream: false });
  expect(recordOf(exchange)).toMatchObject({ firstUs: Number.NaN, failure: null });
  expect(exchange.answer.finishedUs).toBe(700);
});

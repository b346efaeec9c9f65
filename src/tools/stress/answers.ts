/** The answers of the stress server: the same known text in each dialect, with characters of 1 to 4 bytes, and usage. */
import type { ReportedCall } from "./seen.ts";

/** Text of every answer. */
export const ANSWER_TEXT = 'Grüße, 🦔 and 👩‍👩‍👧 — ünïcode → done.\nSecond line, "quoted" \\ and {braces}.';
const PIECES = 3;
const USAGE = { prompt_tokens: 7, total_tokens: 40, completion_tokens: 33 };

export interface CannedAnswer {
  readonly events: readonly string[];
  readonly whole: string;
}

/** Reasoning of answers that have reasoning. */
export const ANSWER_REASONING = "First, the umlauts. Then the hedgehog 🦔.";

/** Path after the base URL. If several fit, the last one counts. */
export type AnswerPath = "/chat/completions" | "/completions" | "/messages" | "/responses";

const json = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, value: object) => `event: ${type}\n${json({ type, ...value })}`;
const DONE = "data: [DONE]\n\n";

/** Splits a text into pieces of three characters. A character is never split. */
function pieces(text = ANSWER_TEXT): string[] {
  const all = [...text];
  return Array.from({ length: Math.ceil(all.length / PIECES) }, (_, i) =>
    all.slice(i * PIECES, (i + 1) * PIECES).join(""),
  );
}

/** Tool calls of the answer in cases about tool calls. `TOOLS` are the definitions that a client should offer. */
export const ANSWER_CALLS: readonly ReportedCall[] = [
  { name: "look_up", arguments: '{"city": "Zürich", "days": 3}' },
  { name: "send_mail", arguments: '{"to": "a@b.example"}' },
];
export const TOOLS = ANSWER_CALLS.map(({ name, arguments: args }) => {
  const entries = Object.entries(JSON.parse(args) as Record<string, unknown>);
  const properties = Object.fromEntries(entries.map(([key, value]) => [key, { type: typeof value }]));
  return { type: "function", function: { name, parameters: { type: "object", properties } } };
});

export interface AnswerOptions {
  readonly id: string;
  /** Creation time in Unix seconds. */
  readonly created: number;
  /** True if a stream has a chunk with usage. */
  readonly withUsage: boolean;
  /** True if the answer calls tools. Only in the chat dialect. */
  readonly withTools: boolean;
  /** True if the answer begins with reasoning. Only in the chat dialect. */
  readonly withReasoning: boolean;
}

/** Returns the answer for a path, both as a stream and as one body. */
export function cannedAnswer(
  path: AnswerPath,
  { id, created, withUsage, withTools, withReasoning }: AnswerOptions,
): CannedAnswer {
  if (path === "/messages") return message(id);
  if (path === "/responses") return response(id, created);
  if (path === "/chat/completions" && withTools) return calls(id, created, withUsage);
  const isChat = path === "/chat/completions";
  const head = { id, object: isChat ? "chat.completion.chunk" : "text_completion", created, model: "m" };
  const choice = (text: string, reason: string | null) =>
    isChat ? { index: 0, delta: { content: text }, finish_reason: reason } : { index: 0, text, finish_reason: reason };
  const chunk = (choices: readonly object[], more: object = {}) => json({ ...head, choices, ...more });
  const [first = "", ...others] = pieces();
  // The very first event has text, so that a client that loses this event loses text.
  const opening = isChat
    ? chunk([{ index: 0, delta: { role: "assistant", content: first }, finish_reason: null }])
    : chunk([choice(first, null)]);
  const usage = withUsage ? [chunk([], { usage: USAGE })] : [];
  const textChunks = others.map((piece) => chunk([choice(piece, null)]));
  const reasons = withReasoning && isChat;
  const reasoningChunks = (reasons ? pieces(ANSWER_REASONING) : []).map((reasoning) =>
    chunk([{ index: 0, delta: { role: "assistant", reasoning }, finish_reason: null }]),
  );
  const wholeMessage = { role: "assistant", content: ANSWER_TEXT, ...(reasons ? { reasoning: ANSWER_REASONING } : {}) };
  const wholeChoice = isChat
    ? { index: 0, message: wholeMessage, finish_reason: "stop" }
    : { index: 0, text: ANSWER_TEXT, finish_reason: "stop" };
  const object = isChat ? "chat.completion" : "text_completion";
  return {
    events: [...reasoningChunks, opening, ...textChunks, chunk([choice("", "stop")]), ...usage, DONE],
    whole: JSON.stringify({ ...head, object, choices: [wholeChoice], usage: USAGE }),
  };
}

/** Returns an answer of two tool calls. The arguments of each come in three parts. */
function calls(id: string, created: number, withUsage: boolean): CannedAnswer {
  const head = { id, object: "chat.completion.chunk", created, model: "m" };
  const chunk = (delta: object, reason: string | null = null) =>
    json({ ...head, choices: [{ index: 0, delta, finish_reason: reason }] });
  const part = (index: number, args: string, more: object = {}) =>
    chunk({ tool_calls: [{ index, ...more, function: { arguments: args } }] });
  const argumentChunks = ANSWER_CALLS.flatMap(({ name, arguments: args }, index) => [
    chunk({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name, arguments: "" } }] }),
    ...[args.slice(0, 8), args.slice(8, 15), args.slice(15)].map((text) => part(index, text)),
  ]);
  const usage = withUsage ? [json({ ...head, choices: [], usage: USAGE })] : [];
  const tool_calls = ANSWER_CALLS.map((call, index) => ({ id: `call_${index}`, type: "function", function: call }));
  const message = { role: "assistant", content: null, tool_calls };
  return {
    events: [chunk({ role: "assistant", content: null }), ...argumentChunks, chunk({}, "tool_calls"), ...usage, DONE],
    whole: JSON.stringify({
      ...head,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      usage: USAGE,
    }),
  };
}

function message(id: string): CannedAnswer {
  const usage = { input_tokens: USAGE.prompt_tokens, output_tokens: USAGE.completion_tokens };
  const head = { id, type: "message", role: "assistant", model: "m", stop_sequence: null };
  const delta = (text: string) => named("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
  const opened = { ...head, content: [], stop_reason: null, usage: { ...usage, output_tokens: 0 } };
  return {
    events: [
      named("message_start", { message: opened }),
      named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
      ...pieces().map(delta),
      named("content_block_stop", { index: 0 }),
      named("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage }),
      named("message_stop", {}),
    ],
    whole: JSON.stringify({ ...head, content: [{ type: "text", text: ANSWER_TEXT }], stop_reason: "end_turn", usage }),
  };
}

function response(id: string, created: number): CannedAnswer {
  const part = { type: "output_text", text: ANSWER_TEXT, annotations: [] };
  const item = { id: "msg_1", type: "message", role: "assistant", status: "completed", content: [part] };
  const usage = {
    input_tokens: USAGE.prompt_tokens,
    output_tokens: USAGE.completion_tokens,
    total_tokens: USAGE.total_tokens,
  };
  const head = { id, object: "response", created_at: created, model: "m", parallel_tool_calls: true, tools: [] };
  const open = { ...head, status: "in_progress", output: [], usage: null };
  const whole = { ...head, status: "completed", output: [item], usage };
  const at = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const empty = { ...part, text: "" };
  const parts: (readonly [string, object])[] = [
    ["response.created", { response: open }],
    ["response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress", content: [] } }],
    ["response.content_part.added", { ...at, part: empty }],
    ...pieces().map((delta) => ["response.output_text.delta", { ...at, delta, logprobs: [] }] as const),
    ["response.output_text.done", { ...at, text: ANSWER_TEXT, logprobs: [] }],
    ["response.content_part.done", { ...at, part }],
    ["response.output_item.done", { output_index: 0, item }],
    ["response.completed", { response: whole }],
  ];
  return {
    events: parts.map(([type, value], at) => named(type, { ...value, sequence_number: at })),
    whole: JSON.stringify(whole),
  };
}

/** Example streams of each dialect, so that tests of the pipeline need no server. */
const json = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, value: object) => `event: ${type}\n${json({ type, ...value })}`;

export const HEAD = [
  "HTTP/1.1 200 OK",
  "date: Tue, 24 Nov 2026 23:01:08 GMT",
  "server: uvicorn",
  "content-type: text/event-stream; charset=utf-8",
  "transfer-encoding: chunked",
  "\r\n",
].join("\r\n");

/** Splits a text into pieces of up to four UTF-16 units, never inside a Unicode character. */
const pieces = (text: string) =>
  [...text].map((_, i, all) => all.slice(i, i + 2).join("")).filter((_, i) => i % 2 === 0);

const chunk = (delta: object, reason: string | null = null, more: object = {}) =>
  json({
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: reason }],
    ...more,
  });

export function chatStream(text: string): string[] {
  const chunks = pieces(text).map((content) => chunk({ content }));
  return [chunk({ role: "assistant", content: "" }), ...chunks, chunk({ content: "" }, "stop"), "data: [DONE]\n\n"];
}

function callStream(): string[] {
  const call = (index: number, id: string | null, name: string | null, args: string) =>
    chunk({
      tool_calls: [
        { index, ...(id ? { id, type: "function" } : {}), function: { ...(name ? { name } : {}), arguments: args } },
      ],
    });
  const calls = ["first", "second"].flatMap((name, index) => [
    call(index, `call-${index}`, name, ""),
    call(index, null, null, '{"city": '),
    call(index, null, null, '"Bern"}'),
  ]);
  return [chunk({ role: "assistant", content: "" }), ...calls, chunk({}, "tool_calls"), "data: [DONE]\n\n"];
}

function completionStream(text: string): string[] {
  const chunks = pieces(text).map((piece, i, all) =>
    json({
      id: "c",
      object: "text_completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, text: piece, finish_reason: i === all.length - 1 ? "stop" : null }],
    }),
  );
  return [...chunks, "data: [DONE]\n\n"];
}

function messageStream(text: string): string[] {
  return [
    named("message_start", {
      message: { id: "m", role: "assistant", content: [], usage: { input_tokens: 1, output_tokens: 0 } },
    }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    ...pieces(text).map((piece) =>
      named("content_block_delta", { index: 0, delta: { type: "text_delta", text: piece } }),
    ),
    named("content_block_stop", { index: 0 }),
    named("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } }),
    named("message_stop", {}),
  ];
}

function responseStream(text: string): string[] {
  const delta = (piece: string) => named("response.output_text.delta", { delta: piece, item_id: "i", output_index: 0 });
  return [
    named("response.created", { response: { id: "r", status: "in_progress" } }),
    ...pieces(text).map(delta),
    named("response.completed", { response: { id: "r", status: "completed", output: [] } }),
  ];
}

const TEXT = "Grüße, 🦔 and all → bye";
export const DIALECT_STREAMS: readonly (readonly string[])[] = [
  chatStream(TEXT),
  callStream(),
  completionStream(TEXT),
  messageStream(TEXT),
  responseStream(TEXT),
];

/** Builds the example of `understudy fault explain`: the operations that send a short chat answer when a plan disturbs it. */
import { substituteAnswer } from "./instead.ts";
import { MessagePipeline } from "./messages.ts";
import { FaultPipeline } from "./pipeline.ts";
import type { Plan, WireOperation } from "./plan/types.ts";
import { headIn } from "./stages/heads.ts";

export interface Example {
  /** Describes the example answer. */
  readonly title: string;
  /** One line per operation. */
  readonly lines: readonly string[];
  /** Lines of the same answer without the plan. */
  readonly plainLines: readonly string[];
  /** Faults that did not act in the example. */
  readonly idle: readonly string[];
}

const HEAD = [
  "HTTP/1.1 200 OK",
  "server: uvicorn",
  "date: Thu, 01 Jan 2026 00:00:00 GMT",
  "content-type: text/event-stream; charset=utf-8",
  "transfer-encoding: chunked",
  "\r\n",
].join("\r\n");
/** Unix time in seconds that the example's dates show. */
const EPOCH_S = 1_767_225_600;
/** Text with characters of one, two, three and four bytes. */
const TEXT_PIECES = ["Say", " ünï", " → ", "🦔", "."];
const REASONING_PIECES = ["Be", " brief."];
const TOOL_CALLS = [
  { name: "look_up", parts: ['{"city": ', '"Rome"}'] },
  { name: "send_mail", parts: ['{"to": ', '"a@b"}'] },
];
const MESSAGES = ["Say", " ünï", "."];
/**
 * Maximum number of events in the example. The example grows up to this number, so that it contains the event or byte that a
 * plan names.
 */
const EVENTS_MOST = 400;
/** Minimum size in bytes of one event in the example. */
const EVENT_BYTES = 100;
const TOOL_FAULTS = ["J7", "J16"];
const REASONING_FAULTS = ["J19"];

export function exampleOf(plan: Plan): Example {
  const clean: Plan = { ...plan, faults: [] };
  const acts = (ids: readonly string[]) => plan.faults.some(({ row }) => ids.includes(row.id));
  if (plan.faults.some(({ row }) => row.stage === "grpc")) {
    const count = Math.max(MESSAGES.length, eventsOf(plan));
    const title = "example: a gRPC call with a few words";
    return { ...callExample(plan, count), plainLines: callExample(clean, count).lines, title };
  }
  const http2 = plan.faults.some(({ row }) => row.http === "2");
  const kind = acts(TOOL_FAULTS) ? "tools" : acts(REASONING_FAULTS) ? "reasoning" : "text";
  const events = exampleEvents(kind, eventsOf(plan));
  const title = `example: a chat answer ${TITLES[kind]}${http2 ? ", over HTTP/2" : ""}`;
  const plainLines = streamExample(clean, events, http2).lines;
  return { title, plainLines, ...(substituteExample(plan, http2) ?? streamExample(plan, events, http2)) };
}

const TITLES = {
  text: "with a few words",
  tools: "with two tool calls",
  reasoning: "with reasoning before the text",
};

/**
 * Returns the number of events that the example needs to contain every position that the plan names, but at most `EVENTS_MOST`.
 */
function eventsOf({ faults }: Plan): number {
  const needed = faults.map(({ position: { kind, at, count } }) =>
    kind === "event" || kind === "drawn" ? at + count + 2 : kind === "byte" ? Math.ceil(at / EVENT_BYTES) + 2 : 0,
  );
  return Math.min(EVENTS_MOST, Math.max(...needed));
}

function streamExample(plan: Plan, events: readonly string[], http2: boolean) {
  const pipeline = new FaultPipeline(plan, plan.key ?? "example", http2);
  const operations = [
    ...pipeline.begin(headIn(http2 ? HEAD.replace("transfer-encoding: chunked\r\n", "") : HEAD)),
    ...events.flatMap((event) => pipeline.write(event)),
    ...pipeline.end(),
  ];
  const idle = pipeline.account().fired.filter(({ times }) => times === 0);
  return { lines: operations.map(operationLine), idle: idle.map(({ fault }) => fault) };
}

/**
 * Builds the answer of a fault that replaces the server's answer, disturbed by the plan's other faults. Returns null if no
 * fault of the plan replaces the answer.
 */
function substituteExample(plan: Plan, http2: boolean): Pick<Example, "lines" | "idle"> | null {
  const attempt = { before: 0, open: Number.POSITIVE_INFINITY, target: "/v1/chat/completions", epochSeconds: EPOCH_S };
  const answer = substituteAnswer(plan, attempt);
  if (answer === null) return null;
  const body = Buffer.from(answer.body);
  const fields = Object.entries({ ...answer.headers, "content-length": body.length });
  const lines = [`HTTP/1.1 ${answer.status} `, ...fields.map(([name, value]) => `${name}: ${value}`), "\r\n"];
  const pipeline = new FaultPipeline(plan, plan.key ?? "example", http2);
  const operations = pipeline.whole(headIn(lines.join("\r\n")), body);
  const idle = pipeline.account().fired.filter(({ id, times }) => times === 0 && id !== answer.id);
  return { lines: operations.map(operationLine), idle: idle.map(({ fault }) => fault) };
}

function callExample(plan: Plan, count: number) {
  const pipeline = new MessagePipeline(plan, plan.key ?? "example");
  const operations = [
    ...pipeline.begin(Buffer.from(":status 200; content-type application/grpc")),
    ...Array.from({ length: count }, (_, at) => MESSAGES[at % MESSAGES.length]!).flatMap((text) =>
      pipeline.message(messageOf(text)),
    ),
    ...pipeline.end(),
  ];
  const trailers = { lost: "no trailers", bare: "trailers without a status", odd: "trailers with grpc-status: odd" };
  const end =
    pipeline.trailers in trailers
      ? trailers[pipeline.trailers as keyof typeof trailers]
      : `trailers with grpc-status: ${pipeline.status ?? 0}`;
  const idle = pipeline.account().fired.filter(({ times }) => times === 0);
  return { lines: [...operations.map(operationLine), `  ${end}`], idle: idle.map(({ fault }) => fault) };
}

/** Encodes a gRPC message with the prefix of five bytes that precedes each message. */
function messageOf(text: string): Uint8Array {
  const body = Buffer.from(text);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** Returns the events of the example answer. `least`: minimum number of events; the text is repeated until it fills them. */
function exampleEvents(kind: keyof typeof TITLES, least: number): string[] {
  const chunk = (delta: object, reason: string | null = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const deltas: string[] = [];
  do {
    if (kind === "tools") deltas.push(...toolDeltas(chunk));
    else if (kind === "reasoning") deltas.push(...REASONING_PIECES.map((reasoning) => chunk({ reasoning })));
    deltas.push(...(kind === "tools" ? [] : TEXT_PIECES.map((content) => chunk({ content }))));
  } while (kind === "text" && deltas.length < least);
  return [
    chunk({ role: "assistant", content: "" }),
    ...deltas,
    chunk({}, kind === "tools" ? "tool_calls" : "stop"),
    "data: [DONE]\n\n",
  ];
}

const toolDeltas = (chunk: (delta: object) => string): string[] =>
  TOOL_CALLS.flatMap(({ name, parts }, index) => [
    chunk({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name, arguments: "" } }] }),
    ...parts.map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
  ]);

/** Maximum number of bytes of one operation that the example prints. */
const PRINTED_BYTES_MOST = 400;

function operationLine(operation: WireOperation): string {
  if (operation.kind === "wait") return `  waits ${operation.us} us`;
  if (operation.kind === "goaway")
    return `  GOAWAY, code ${operation.code}${operation.unserved ? ", this stream was not processed" : ""}`;
  if (operation.kind === "end") {
    const { next, refused } = operation.after;
    const code = operation.code === undefined ? "" : `, code ${operation.code}`;
    const nextEnd = next === null ? "" : `, and ${next} at the next request of the connection`;
    const closed = refused === 0 ? "" : `, and the next ${refused} connections are closed when they open`;
    return `  ends: ${operation.how}${code}${nextEnd}${closed}`;
  }
  const pace = operation.pace === null ? "" : `, ${operation.pace.bytes} B every ${operation.pace.gapUs} us`;
  return `  ${String(operation.bytes.length).padStart(6)} B${pace}  ${formatBytes(operation.bytes)}`;
}

function formatBytes(bytes: Uint8Array): string {
  const text = [...bytes.subarray(0, PRINTED_BYTES_MOST)].map(formatByte).join("");
  return `${text}${bytes.length > PRINTED_BYTES_MOST ? "…" : ""}`;
}

const ESCAPES: Readonly<Record<number, string>> = { 10: "\\n", 13: "\\r", 92: "\\\\" };
const formatByte = (byte: number): string =>
  ESCAPES[byte] ?? (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`);

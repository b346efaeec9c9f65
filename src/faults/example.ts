/** A short answer of chat, as a plan leaves it, operation by operation: the example of `understudy fault explain`. */
import { insteadOf } from "./instead.ts";
import { MessagePipeline } from "./messages.ts";
import { FaultPipeline } from "./pipeline.ts";
import type { Plan, WireOperation } from "./plan/types.ts";
import { headIn } from "./stages/heads.ts";

export interface Example {
  /** What the answer is, in words. */
  readonly title: string;
  /** What is done, a line each. */
  readonly lines: readonly string[];
  /** Lines of the same answer without the plan. */
  readonly plainLines: readonly string[];
  /** Faults that did nothing. */
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
/** Unix seconds of the example, for dates. */
const EPOCH_S = 1_767_225_600;
/** A text with characters of one, two, three and four bytes. */
const SAID = ["Say", " ünï", " → ", "🦔", "."];
const REASONED = ["Be", " brief."];
const CALLED = [
  { name: "look_up", parts: ['{"city": ', '"Rome"}'] },
  { name: "send_mail", parts: ['{"to": ', '"a@b"}'] },
];
const MESSAGES = ["Say", " ünï", "."];
/** An example reaches an event, or byte, that a plan names, up to this many events. */
const EVENTS_MOST = 400;
/** No event of the example is smaller. */
const EVENT_BYTES = 100;
const TOOL_FAULTS = ["J7", "J16"];
const REASONING_FAULTS = ["J19"];

export function exampleOf(plan: Plan): Example {
  const clean: Plan = { ...plan, faults: [] };
  const acts = (ids: readonly string[]) => plan.faults.some(({ row }) => ids.includes(row.id));
  if (plan.faults.some(({ row }) => row.stage === "grpc")) {
    const count = Math.max(MESSAGES.length, eventsOf(plan));
    const title = "of a gRPC call that says a few words";
    return { ...callExample(plan, count), plainLines: callExample(clean, count).lines, title };
  }
  const http2 = plan.faults.some(({ row }) => row.http === "2");
  const kind = acts(TOOL_FAULTS) ? "tools" : acts(REASONING_FAULTS) ? "reasoning" : "text";
  const events = exampleEvents(kind, eventsOf(plan));
  const title = `of an answer of chat ${TITLES[kind]}${http2 ? ", over HTTP/2" : ""}`;
  const plainLines = streamExample(clean, events, http2).lines;
  return { title, plainLines, ...(insteadExample(plan, http2) ?? streamExample(plan, events, http2)) };
}

const TITLES = {
  text: "that says a few words",
  tools: "that calls two tools",
  reasoning: "that reasons, then answers",
};

/** Returns how many events the example needs, so that each position lies in it. */
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

/** The answer that replaces the server's, and what the plan's other faults do to it; null: the server answers. */
function insteadExample(plan: Plan, http2: boolean): Pick<Example, "lines" | "idle"> | null {
  const attempt = { before: 0, open: Number.POSITIVE_INFINITY, target: "/v1/chat/completions", epochSeconds: EPOCH_S };
  const answer = insteadOf(plan, attempt);
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

/** A message with the five bytes before it. */
function messageOf(text: string): Uint8Array {
  const body = Buffer.from(text);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** `least`: the text is repeated until there are as many events. */
function exampleEvents(kind: keyof typeof TITLES, least: number): string[] {
  const chunk = (delta: object, reason: string | null = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const said: string[] = [];
  do {
    if (kind === "tools") said.push(...toolDeltas(chunk));
    else if (kind === "reasoning") said.push(...REASONED.map((reasoning) => chunk({ reasoning })));
    said.push(...(kind === "tools" ? [] : SAID.map((content) => chunk({ content }))));
  } while (kind === "text" && said.length < least);
  return [
    chunk({ role: "assistant", content: "" }),
    ...said,
    chunk({}, kind === "tools" ? "tool_calls" : "stop"),
    "data: [DONE]\n\n",
  ];
}

const toolDeltas = (chunk: (delta: object) => string): string[] =>
  CALLED.flatMap(({ name, parts }, index) => [
    chunk({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name, arguments: "" } }] }),
    ...parts.map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
  ]);

/** Bytes of an operation that are shown. */
const SHOWN = 400;

function operationLine(one: WireOperation): string {
  if (one.kind === "wait") return `  waits ${one.us} us`;
  if (one.kind === "goaway")
    return `  GOAWAY, code ${one.code}${one.unserved ? ", this stream was not processed" : ""}`;
  if (one.kind === "end") {
    const { next, refused } = one.after;
    const code = one.code === undefined ? "" : `, code ${one.code}`;
    const kept = next === null ? "" : `, and ${next} at the next request of the connection`;
    const closed = refused === 0 ? "" : `, and the next connections are closed as they are opened: ${refused}`;
    return `  ends: ${one.how}${code}${kept}${closed}`;
  }
  const pace = one.pace === null ? "" : `, ${one.pace.bytes} B each ${one.pace.gapUs} us`;
  return `  ${String(one.bytes.length).padStart(6)} B${pace}  ${shownBytes(one.bytes)}`;
}

function shownBytes(bytes: Uint8Array): string {
  const text = [...bytes.subarray(0, SHOWN)].map(shownByte).join("");
  return `${text}${bytes.length > SHOWN ? "…" : ""}`;
}

const ESCAPES: Readonly<Record<number, string>> = { 10: "\\n", 13: "\\r", 92: "\\\\" };
const shownByte = (byte: number): string =>
  ESCAPES[byte] ?? (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`);

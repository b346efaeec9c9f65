/** What does a plan do, in words, and what does it make of an example's bytes? */
import { FaultPipeline } from "./pipeline.ts";
import { headIn } from "./stages/heads.ts";
import type { Plan, PlannedFault, Position, WireOperation } from "./types.ts";

const HEAD = [
  "HTTP/1.1 200 OK",
  "server: uvicorn",
  "content-type: text/event-stream; charset=utf-8",
  "transfer-encoding: chunked",
  "\r\n",
].join("\r\n");
/** A text with characters of one, two, three and four bytes. */
const SAID = ["Say", " ünï", " → ", "🦔", "."];
const SHOWN = 200;

export function explained(plan: Plan): string {
  const words = plan.faults.map(
    (fault) =>
      `${fault.row.id}, ${fault.row.stage}: ${fault.row.what}\n    ${whereOf(fault.position)}${valuesOf(fault)}\n    a correct client: ${fault.row.oracle} (${fault.row.text})`,
  );
  const http2 = plan.faults.some(({ row }) => row.http === "2");
  const pipeline = new FaultPipeline(plan, plan.key ?? "example", http2);
  const operations = [
    ...pipeline.begin(headIn(http2 ? HEAD.replace("transfer-encoding: chunked\r\n", "") : HEAD)),
    ...exampleEvents().flatMap((event) => pipeline.write(event)),
    ...pipeline.end(),
  ];
  const idle = pipeline.account().fired.filter(({ times }) => times === 0);
  return [
    ...words,
    "",
    `of an answer of chat that says a few words${http2 ? ", over HTTP/2" : ""}:`,
    ...operations.map(operationLine),
    ...idle.map(
      ({ fault }) => `${fault} did nothing here: it answers in the server's place, or the example has no such place`,
    ),
  ].join("\n");
}

function whereOf({ kind, at, offset, count }: Position): string {
  const places = {
    head: "before the head, of events the first",
    event: `before event ${at}`,
    byte: `before byte ${at} of the body`,
    done: "at the last event",
    every: "everywhere",
    drawn: `at an event drawn among the first ${at}`,
    chance: `at each event with a chance of ${at}`,
  };
  return `${places[kind]}${offset === null ? "" : `, byte ${offset}`}${count > 1 ? `, ${count} events in a row` : ""}`;
}

const valuesOf = ({ values }: PlannedFault): string =>
  Object.entries(values)
    .map(([name, value]) => `; ${name}=${value}`)
    .join("");

function exampleEvents(): string[] {
  const chunk = (delta: object, reason: string | null = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  return [
    chunk({ role: "assistant", content: "" }),
    ...SAID.map((content) => chunk({ content })),
    chunk({}, "stop"),
    "data: [DONE]\n\n",
  ];
}

function operationLine(one: WireOperation): string {
  if (one.kind === "wait") return `  waits ${one.us} us`;
  if (one.kind === "goaway") return `  GOAWAY, code ${one.code}${one.unserved ? ", this stream not served" : ""}`;
  if (one.kind === "end")
    return `  ends: ${one.how}${one.code === undefined ? "" : `, code ${one.code}`}${one.after.next === null ? "" : `, and ${one.after.next} at the next request`}`;
  const text = [...one.bytes.subarray(0, SHOWN)].map(shownByte).join("");
  const pace = one.pace === null ? "" : `, ${one.pace.bytes} B each ${one.pace.gapUs} us`;
  return `  ${String(one.bytes.length).padStart(6)} B${pace}  ${text}${one.bytes.length > SHOWN ? "…" : ""}`;
}

const ESCAPES: Readonly<Record<number, string>> = { 10: "\\n", 13: "\\r", 92: "\\\\" };
const shownByte = (byte: number): string =>
  ESCAPES[byte] ?? (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`);

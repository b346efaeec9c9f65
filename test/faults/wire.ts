/** Reads a faulty answer byte by byte, without any tolerance, and reports how the connection ended. */
import net from "node:net";
import { parsePlan } from "../../src/faults/parse.ts";
import { type FaultAccount, FaultPipeline } from "../../src/faults/pipeline.ts";
import type { WireOperation } from "../../src/faults/plan/types.ts";
import { headIn } from "../../src/faults/stages/heads.ts";

/** An answer as a client received it from a socket. */
export interface ReceivedAnswer {
  readonly bytes: Buffer;
  readonly segments: number;
  readonly end: "fin" | "rst" | "open";
}

const PATIENCE_MS = 15_000;
/** Extra time to watch an open connection for bytes that should not come. */
const LINGER_MS = 60;

/** Sends the text and reads until the connection ends. If it stays open, stops a moment after `bytes` bytes. */
export function readWire(
  port: number,
  text: string | Uint8Array,
  enough = Number.POSITIVE_INFINITY,
): Promise<ReceivedAnswer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  const { promise, resolve } = Promise.withResolvers<ReceivedAnswer>();
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const over = (end: ReceivedAnswer["end"]) => {
    clearTimeout(patience);
    socket.destroy();
    resolve({ bytes: Buffer.concat(parts), segments: parts.length, end });
  };
  let patience = setTimeout(() => over("open"), PATIENCE_MS);
  socket.on("connect", () => socket.write(text));
  socket.on("data", (data: Buffer) => {
    parts.push(data);
    bytes += data.length;
    if (bytes < enough) return;
    clearTimeout(patience);
    patience = setTimeout(() => over("open"), LINGER_MS);
  });
  socket.on("end", () => over("fin"));
  socket.on("error", () => over("rst"));
  socket.on("close", () => over("rst"));
  return promise;
}

/** A clean answer in parts. */
export interface CleanAnswer {
  readonly head: string;
  /** Events with their empty lines. For an answer in one piece, its body. */
  readonly events: readonly string[];
  readonly streams: boolean;
}

export function cleanAnswer(bytes: Buffer): CleanAnswer {
  const text = bytes.toString();
  const at = text.indexOf("\r\n\r\n") + 4;
  const [head, body] = [text.slice(0, at), text.slice(at)];
  if (!head.includes("chunked")) return { head, events: [body], streams: false };
  return { head, events: body.split(/\r\n/).filter((line) => line.includes("data:")), streams: true };
}

/** Runs the pipeline. `pass`: result for events that bypass it, or null if they are written. */
export function run(
  pipeline: FaultPipeline,
  clean: CleanAnswer,
  pass: (event: string) => WireOperation[] | null = () => null,
): WireOperation[] {
  const head = headIn(clean.head);
  if (!clean.streams) return pipeline.whole(head, Buffer.from(clean.events[0]!));
  return [
    ...pipeline.begin(head),
    ...clean.events.flatMap((event) => pass(event) ?? pipeline.write(event)),
    ...pipeline.end(),
  ];
}

export const predicted = (clean: CleanAnswer, line: string, key: string, http2 = false): WireOperation[] =>
  run(new FaultPipeline(parsePlan(line), key, http2), clean);

export function accountOf(clean: CleanAnswer, line: string, key: string, http2 = false): FaultAccount {
  const pipeline = new FaultPipeline(parsePlan(line), key, http2);
  run(pipeline, clean);
  return pipeline.account();
}

export const bytesOf = (operations: readonly WireOperation[]): Buffer =>
  Buffer.concat(operations.map((operation) => (operation.kind === "bytes" ? operation.bytes : new Uint8Array())));

/** Random digits of fixed length. */
const IDS = /\b(resp|msg|rs|fc|call|chatcmpl-tool)[_-][0-9a-f]{16,}\b/g;

/** Returns the clean answer with the time of the faulty answer. */
export function atSecondOf(clean: Buffer, faulty: Buffer): Buffer {
  let text = clean.toString("latin1").replace("connection: close\r\n", "");
  for (const pattern of [/^date: .*$/m, /"created(_at)?":\d+/]) {
    const found = pattern.exec(faulty.toString("latin1"))?.[0];
    if (found !== undefined) text = text.replaceAll(new RegExp(pattern, "gm"), found);
  }
  const ids = (bytes: string) => [...new Set(bytes.match(IDS) ?? [])];
  const drawn = ids(faulty.toString("latin1"));
  for (const [at, id] of ids(text).entries()) text = text.replaceAll(id, drawn[at] ?? id);
  return Buffer.from(text, "latin1");
}

/** Returns the first difference of two answers with the text at it, or null. Ignores dates. */
export function difference(seen: Buffer, wanted: Buffer): readonly [number, string, string] | null {
  const undated = (bytes: Buffer) => bytes.toString("latin1").replace(/^date: .*$/m, "date");
  const [a, b] = [undated(seen), undated(wanted)];
  if (a === b) return null;
  let at = 0;
  while (a[at] === b[at]) at++;
  return [at, a.slice(at - 30, at + 60), b.slice(at - 30, at + 60)];
}

/** What does a reader without any mercy see of a faulty answer: which bytes, and how the connection ended? */
import net from "node:net";
import { parsePlan } from "../../src/faults/parse.ts";
import { type FaultAccount, FaultPipeline } from "../../src/faults/pipeline.ts";
import type { WireOperation } from "../../src/faults/plan/types.ts";
import { headIn } from "../../src/faults/stages/heads.ts";

export interface SeenWire {
  readonly bytes: Buffer;
  readonly segments: number;
  readonly end: "fin" | "rst" | "open";
}

const PATIENCE_MS = 15_000;
/** How much longer is looked at a connection that stays open, for what should not come. */
const LINGER_MS = 60;

/** Sends the text and reads until the connection ends; one that stays open until so many bytes are there, and a moment longer. */
export function readWire(
  port: number,
  text: string | Uint8Array,
  enough = Number.POSITIVE_INFINITY,
): Promise<SeenWire> {
  const parts: Buffer[] = [];
  let bytes = 0;
  const { promise, resolve } = Promise.withResolvers<SeenWire>();
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const over = (end: SeenWire["end"]) => {
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

/** A clean answer, taken apart. */
export interface CleanAnswer {
  readonly head: string;
  /** Events with their empty lines; of an answer in one piece its body. */
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

/** What the pipeline does with it. `pass`: what is done with an event past it; null: it is written. */
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
  Buffer.concat(operations.map((one) => (one.kind === "bytes" ? one.bytes : new Uint8Array())));

/** Digits that are drawn by chance, all of them as long. */
const IDS = /\b(resp|msg|rs|fc|call|chatcmpl-tool)[_-][0-9a-f]{16,}\b/g;

/** The clean answer as it would have come at the second of the faulty one. */
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

/** Where two answers part, with what stands there; null: they are the same. A date is not looked at. */
export function difference(seen: Buffer, wanted: Buffer): readonly [number, string, string] | null {
  const undated = (bytes: Buffer) => bytes.toString("latin1").replace(/^date: .*$/m, "date");
  const [a, b] = [undated(seen), undated(wanted)];
  if (a === b) return null;
  let at = 0;
  while (a[at] === b[at]) at++;
  return [at, a.slice(at - 30, at + 60), b.slice(at - 30, at + 60)];
}

/** What does a reader without any mercy see of a faulty answer: which bytes, and how the connection ended? */
import net from "node:net";
import { parsePlan } from "../../src/faults/parse.ts";
import { type FaultAccount, FaultPipeline } from "../../src/faults/pipeline.ts";
import { headIn } from "../../src/faults/stages/heads.ts";
import type { WireOperation } from "../../src/faults/types.ts";

export interface SeenWire {
  readonly bytes: Buffer;
  readonly segments: number;
  readonly end: "fin" | "rst" | "open";
}

const PATIENCE_MS = 15_000;
/** How much longer is looked at a connection that stays open, for what should not come. */
const LINGER_MS = 60;

/** Sends the text and reads until the connection ends; one that stays open until so many bytes are there, and a moment longer. */
export function readWire(port: number, text: string, enough = Number.POSITIVE_INFINITY): Promise<SeenWire> {
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

/** What the pipeline does with it. */
export function run(pipeline: FaultPipeline, clean: CleanAnswer): WireOperation[] {
  const head = headIn(clean.head);
  if (!clean.streams) return pipeline.whole(head, Buffer.from(clean.events[0]!));
  return [...pipeline.begin(head), ...clean.events.flatMap((event) => pipeline.write(event)), ...pipeline.end()];
}

export const predicted = (clean: CleanAnswer, line: string, key: string): WireOperation[] =>
  run(new FaultPipeline(parsePlan(line), key), clean);

export function accountOf(clean: CleanAnswer, line: string, key: string): FaultAccount {
  const pipeline = new FaultPipeline(parsePlan(line), key);
  run(pipeline, clean);
  return pipeline.account();
}

export const bytesOf = (operations: readonly WireOperation[]): Buffer =>
  Buffer.concat(operations.map((one) => (one.kind === "bytes" ? one.bytes : new Uint8Array())));

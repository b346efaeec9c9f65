/** Checks the pipeline: it is pure and bounded, counts every event, and cuts bytes where the plan says. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { MessagePipeline } from "../../src/faults/messages.ts";
import { rowsNamed } from "../../src/faults/order.ts";
import { BrokenPlan, parsePlan, plainFault } from "../../src/faults/parse.ts";
import { FaultPipeline } from "../../src/faults/pipeline.ts";
import type { WireOperation } from "../../src/faults/plan/types.ts";
import { figure, seed, sized } from "../size.ts";
import { anyPlan } from "./plans.ts";
import { chatStream, DIALECT_STREAMS, HEAD } from "./streams.ts";
import { bytesOf, run } from "./wire.ts";

setDefaultTimeout(600_000);

const LIMIT = 16 * 2 ** 20;
const clean = { head: HEAD, events: chatStream("Grüße, 🦔 and 👩‍👩‍👧\r\n→ bye"), streams: true };

/** Decodes chunks, and reports whether they end correctly. */
function unchunked(bytes: Buffer): { body: Buffer; whole: boolean } {
  let at = bytes.indexOf("\r\n\r\n") + 4;
  const parts: Buffer[] = [];
  for (;;) {
    const end = bytes.indexOf("\r\n", at);
    if (end === -1) return { body: Buffer.concat(parts), whole: false };
    const size = Number.parseInt(bytes.toString("latin1", at, end), 16);
    if (size === 0) return { body: Buffer.concat(parts), whole: true };
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

const bodyOf = (line: string) => unchunked(bytesOf(run(new FaultPipeline(parsePlan(line), "k"), clean))).body;
const whole = Buffer.from(clean.events.join(""));

/** Formats operations so that they can be compared. */
const textOf = (operations: readonly WireOperation[]): string =>
  operations
    .map((operation) =>
      operation.kind === "bytes" ? `${operation.event} ${Bun.hash(operation.bytes)}` : JSON.stringify(operation),
    )
    .join();

test("a cut at any byte of an event or of the body leaves the bytes unchanged and adds a segment", () => {
  const segments = run(new FaultPipeline(parsePlan("B4@head"), "k"), clean).length;
  for (let at = 0; at < whole.length; at++) {
    const operations = run(new FaultPipeline(parsePlan(`B4@b${at}`), "k"), clean);
    expect(unchunked(bytesOf(operations)).body.equals(whole)).toBe(true);
    expect(operations.length).toBeGreaterThanOrEqual(segments);
  }
  for (const [event, text] of clean.events.entries()) {
    for (let at = 0; at < Buffer.byteLength(text); at++) expect(bodyOf(`B1@e${event}+${at}`).equals(whole)).toBe(true);
  }
});

test("an answer that ends at a position has exactly the bytes before it, for every position", () => {
  const all = bytesOf(run(new FaultPipeline(parsePlan("B4@head"), "k"), clean));
  for (let at = 0; at < whole.length; at += 7) {
    const cut = bytesOf(run(new FaultPipeline(parsePlan(`E6@b${at}`), "k"), clean));
    expect(unchunked(cut).whole).toBe(false);
    expect(unchunked(cut).body.equals(whole.subarray(0, at))).toBe(true);
    expect(cut.length).toBeLessThan(all.length);
  }
});

test("gzip and brotli bodies can be decoded at every flush", () => {
  for (const events of [1, 2, 3, 100]) {
    expect(gunzipSync(bodyOf(`H6,gzip,${events}`)).equals(whole)).toBe(true);
    expect(brotliDecompressSync(bodyOf(`H6,br,${events}`)).equals(whole)).toBe(true);
  }
  expect(() => gunzipSync(bodyOf("H6,gzip-cut"))).toThrow();
  const large = { ...clean, events: [`data: ${"x".repeat(200_000)}\n\n`] };
  const brotli = unchunked(bytesOf(run(new FaultPipeline(parsePlan("H6,br"), "k"), large))).body;
  expect(brotliDecompressSync(brotli).toString()).toBe(large.events[0]!);
});

test("a plan gives the same result, independent of the grouping of events and of other requests", () => {
  const plans = Array.from({ length: 100 }, (_, i) => anyPlan(i, 4));
  const first = plans.map((plan) => textOf(run(new FaultPipeline(parsePlan(plan), "k"), clean)));
  for (let round = 0; round < 19; round++) {
    const order = [...plans.keys()].toSorted(
      (a, b) => ((a * 7919 + round * 104_729) % 101) - ((b * 7919 + round * 104_729) % 101),
    );
    const pipelines = order.map((at) => ({ at, pipeline: new FaultPipeline(parsePlan(plans[at]!), "k") }));
    for (const { at, pipeline } of pipelines) expect(textOf(run(pipeline, clean))).toBe(first[at]!);
  }
  const keyed = new FaultPipeline(parsePlan("B4@*#seed=3"), "another key");
  expect(textOf(run(keyed, clean))).not.toBe(textOf(run(new FaultPipeline(parsePlan("B4@*#seed=3"), "k"), clean)));
  expect(textOf(run(new FaultPipeline(parsePlan(keyed.line), "whatever"), clean))).toBe(
    textOf(run(new FaultPipeline(parsePlan("B4@*#seed=3"), "another key"), clean)),
  );
});

test("any plan of 1 to 6 faults ends, stays below 16 MiB and counts every event", () => {
  const count = sized("faults", { sample: 600, whole: 100_000 });
  let largest = 0;
  for (let i = 0; i < count; i++) {
    const plan = anyPlan(mixed(i), 6);
    const stream = DIALECT_STREAMS[i % DIALECT_STREAMS.length]!;
    const pipeline = new FaultPipeline(parsePlan(plan), `${i}`);
    const operations = run(pipeline, { head: HEAD, events: stream, streams: true });
    const ends = operations.filter(({ kind }) => kind === "end");
    const { came, dropped, whole, cut } = pipeline.account();
    const bytes = bytesOf(operations).length;
    largest = Math.max(largest, bytes);
    if (ends.length !== 1 || operations.at(-1) !== ends[0] || bytes > LIMIT || dropped + whole + cut !== came)
      throw new Error(`${plan}: ${ends.length} ends, ${bytes} bytes, ${JSON.stringify(pipeline.account())}`);
  }
  figure("plans", count);
  figure("largestAnswerBytes", largest);
});

const mixed = (i: number) => (seed * 1_000_003 + i) % 2 ** 31;

/** Returns true for a delta with text and without an end, which can leave as a plain piece. */
const isPiece = (event: string) =>
  /"content":"[^"]|"text":"[^"]|"delta":"[^"]/.test(event) && !/"(finish|stop)_reason":"/.test(event);
const chunkOf = (event: string) => Buffer.from(`${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`);

/** Sends the answer both ways and returns the number of pieces that bypassed the stages. */
function passedBy(plan: string, key: string, events: (typeof DIALECT_STREAMS)[number]): number {
  let passed = 0;
  const all = { head: HEAD, events, streams: true };
  const usual = new FaultPipeline(parsePlan(plan), key);
  const wanted = run(usual, all);
  const quick = new FaultPipeline(parsePlan(plan), key);
  const seen = run(quick, all, (event) => {
    if (!isPiece(event) || quick.over || quick.stopped !== null || !quick.passes(Buffer.byteLength(event))) return null;
    passed++;
    const index = quick.account().came - 1;
    return [{ kind: "bytes", bytes: chunkOf(event), event: index, pace: null }];
  });
  if (textOf(seen) !== textOf(wanted)) throw new Error(`${plan}: other bytes`);
  expect(quick.account()).toEqual(usual.account());
  return passed;
}

/** These faults need the event before, also after they have acted once and at the end. */
const LOOKING_BACK = ["J9@~0.2#seed=1003133", "J9@*", "E4@done", "B4@e3+51;E4@done,error"];

test("letting unchanged pieces bypass the stages changes nothing else", () => {
  const count = sized("faults", { sample: 1500, whole: 100_000 });
  let passed = 0;
  for (const plan of LOOKING_BACK) for (const events of DIALECT_STREAMS) passedBy(plan, plan, events);
  for (let i = 0; i < count; i++)
    passed += passedBy(anyPlan(mixed(i), 1 + (i % 3)), `${i}`, DIALECT_STREAMS[i % DIALECT_STREAMS.length]!);
  expect(passed).toBeGreaterThan(count);
  figure("passedPieces", passed);
});

test("E1 removes the last event in each dialect, and E1,bare also the finish reason", () => {
  const lasts = /\[DONE\]|"(message_stop|response\.completed)"/;
  for (const [variant, says] of [
    ["", true],
    [",bare", false],
  ] as const) {
    for (const events of DIALECT_STREAMS) {
      const pipeline = new FaultPipeline(parsePlan(`E1${variant}`), "k");
      const operations = run(pipeline, { head: HEAD, events, streams: true });
      const body = operations
        .map((operation) => (operation.kind === "bytes" ? Buffer.from(operation.bytes).toString() : ""))
        .join("");
      expect(events.join("")).toMatch(lasts);
      expect(body).not.toMatch(lasts);
      const saysOnce = /"(finish|stop)_reason":"/.test(events.join(""));
      expect(/"(finish|stop)_reason":"/.test(body)).toBe(says && saysOnce);
    }
  }
});

test("faults at `done` act before the last event, with any framing", () => {
  for (const more of ["", ";H1@*,split", ";H7,bytes=70B,for=0us"]) {
    for (const plan of ["E6@done", "E7@done", "T2@done", "T1@done,7ms", "T5@done"]) {
      const pipeline = new FaultPipeline(parsePlan(plan + more), "k");
      const operations = run(pipeline, { head: HEAD, events: DIALECT_STREAMS[0]!, streams: true });
      const at = operations.findIndex(({ kind }) => kind === "wait" || kind === "end");
      const before = operations
        .slice(0, at)
        .flatMap((operation) => (operation.kind === "bytes" ? [Buffer.from(operation.bytes)] : []));
      const text = Buffer.concat(before)
        .toString()
        .replaceAll(/\r\n[0-9a-f]+\r\n/g, "");
      expect([plan + more, pipeline.account().fired[0]!.times]).toEqual([plan + more, 1]);
      expect([plan + more, text.includes('"finish_reason":"'), text.includes("[DONE]")]).toEqual([
        plan + more,
        true,
        false,
      ]);
    }
  }
});

test("the text of a plan parses to the same plan", () => {
  for (let i = 0; i < 2000; i++) {
    const plan = parsePlan(anyPlan(mixed(i), 6));
    const { line } = new FaultPipeline(plan, "a key; with = everything, # and %");
    expect(parsePlan(line)).toEqual({ ...plan, key: "a key; with = everything, # and %" });
  }
});

test.each([
  ["B99", 1],
  ["", 1],
  ["B1@e3+17;T1@e10,2s;E7@40", 23],
  ["S1;S2", 1],
  ["T1@e3,5x", 7],
  ["H6@e3", 4],
  ["C1", 1],
  ["B4@e", 4],
  ["B1@~1.5", 4],
  ["S12,13MB", 5],
  ["B1#seed=x", 4],
  ["B1#key=%G", 4],
  [`B1;${"B4;".repeat(40)}B4`, 1],
  ["B4,".repeat(2000), 2001],
])("%s is refused with the position of the error", (line, at) => {
  expect(() => parsePlan(line)).toThrow(BrokenPlan);
  expect(() => parsePlan(line)).toThrow(`character ${at}:`);
});

test("a fault by chance in a gRPC call acts on messages with any text", () => {
  const rows = rowsNamed([], "grpc");
  expect(rows.length).toBeGreaterThan(8);
  const acted = rows.map((row) => {
    const pipeline = new MessagePipeline({ faults: [plainFault(row)], seed: 0, key: null }, "k");
    pipeline.begin(Buffer.from(HEAD));
    for (let at = 0; at < 10; at++) pipeline.message(Buffer.from("\0\0\0\0\x05hello"));
    pipeline.end();
    return [row.id, pipeline.account().fired[0]!.times > 0];
  });
  expect(acted).toEqual(rows.map(({ id }) => [id, true]));
});

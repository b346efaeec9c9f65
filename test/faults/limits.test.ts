/** Checks the limits of fault plans in docs/reference/limits.md. */

import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { epochSeconds, WallClock } from "../../src/base/clock.ts";
import { parsePlan } from "../../src/faults/parse.ts";
import { ADDED_MOST, FaultPipeline } from "../../src/faults/pipeline.ts";
import { FaultOrders } from "../../src/servers/openai/overrides/fault-orders.ts";
import { openFaultRules } from "../../src/text/canned/fixtures/fault-rules.ts";
import type { Context, DisturbedAnswer, FaultWitness } from "../../src/wire/http/sink.ts";
import { FaultyStream } from "../../src/wire/http1/faulty.ts";
import { HttpServer } from "../../src/wire/http1/server.ts";
import { fakeKernel } from "../kernel/fake-kernel.ts";
import { LOCAL } from "../wire/http1/local-options.ts";
import { HEAD } from "./streams.ts";
import { bytesOf, run } from "./wire.ts";

const MIB = 2 ** 20;
const event = (bytes: number) => `data: ${JSON.stringify({ choices: [{ text: "x".repeat(bytes) }] })}\n\n`;
const account = (plan: string, events: readonly string[]) => {
  const pipeline = new FaultPipeline(parsePlan(plan), "k");
  const operations = run(pipeline, { head: HEAD, events, streams: true });
  return { bytes: bytesOf(operations), operations, fired: pipeline.account().fired.map(({ times }) => times) };
};

test("a plan has at most 32 faults, 2,000 characters and a key of 200", () => {
  const faults = (count: number) => Array.from({ length: count }, () => "J9").join(";");
  expect(parsePlan(faults(32)).faults).toHaveLength(32);
  expect(() => parsePlan(faults(33))).toThrow("33 faults; a plan has at most 32");
  const padded = (characters: number) => `B8${" ".repeat(characters - 2)}`;
  expect(() => parsePlan(padded(2001))).toThrow("character 2001: a plan has at most 2000 characters");
  const keyed = (characters: number) => `B8#key=${"k".repeat(characters)}`;
  expect(parsePlan(keyed(200)).key).toHaveLength(200);
  expect(() => parsePlan(keyed(201))).toThrow("character 4:");
});

test("a file of rules has at most 64 KiB and 200 rules", () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-rules-"));
  const file = join(folder, "rules.yaml");
  const open = (text: string) => () => {
    writeFileSync(file, text);
    return openFaultRules(
      file,
      () => 0,
      () => {},
    );
  };
  const rules = (count: number) => `faults:\n${"  - {plan: B8}\n".repeat(count)}`;
  expect(open(rules(200))).not.toThrow();
  expect(open(rules(201))).toThrow("at most 200 rules are accepted");
  const long = (bytes: number) => `${rules(1)}#`.padEnd(bytes, "x");
  expect(open(long(65_536))).not.toThrow();
  expect(open(long(65_537))).toThrow("at most 65536 bytes are accepted");
  rmSync(folder, { recursive: true });
});

test("a wait lasts at most an hour, jitter at most 10 s", () => {
  const waits = (line: string, count: number) =>
    account(line, Array(count).fill(event(1))).operations.flatMap((operation) =>
      operation.kind === "wait" ? [operation.us] : [],
    );
  expect(waits("T7,for=forever", 1)).toEqual([3600e6]);
  expect(() => parsePlan("T7,for=3601s")).toThrow("character 4:");
  expect(() => parsePlan("T5,median=11s")).toThrow("character 4:");
  expect(Math.max(...waits("T5@*,pareto,median=10s", 200))).toBe(10e6);
});

test("silences in an answer write at most 12,288 comments, and then wait without comments", () => {
  const { operations } = account("T7,comments,for=1h,every=1ms;S5@*,for=1h,every=1ms", Array(3).fill(event(1)));
  const waits = operations.flatMap((operation) => (operation.kind === "wait" ? [operation.us] : []));
  expect(waits.filter((us) => us === 1000)).toHaveLength(12_288);
  expect(waits.reduce((sum, us) => sum + us, 0)).toBe(4 * 3600e6);
});

test("a plan adds at most 12 MiB to an answer", () => {
  const chunk = event(10);
  const clean = account("B4@done", [chunk, chunk, chunk]).bytes.length;
  const { bytes, fired } = account("S12@*,7MiB", [chunk, chunk, chunk]);
  expect(fired).toEqual([1]);
  expect(bytes.length - clean).toBeGreaterThan(6 * MIB);
  expect(bytes.length - clean).toBeLessThan(ADDED_MOST);
  // Each chunk holds the text of all chunks before it.
  const delta = { index: 0, delta: { content: "x".repeat(MIB) }, finish_reason: null };
  const many = Array.from(
    { length: 12 },
    () => `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [delta] })}\n\n`,
  );
  const whole = account("J17@*", many).bytes.length - account("B4@done", many).bytes.length;
  expect(whole).toBeGreaterThan(8 * MIB);
  expect(whole).toBeLessThan(ADDED_MOST + MIB);
});

test("at most 8 MiB of a stream wait for its length; a longer stream has no length, and the fault does not count", () => {
  const within = account("H4,length", [event(7 * MIB)]);
  expect([within.fired, within.bytes.subarray(0, 400).toString().includes("content-length")]).toEqual([[1], true]);
  const beyond = account("H4,length", [event(7 * MIB), event(2 * MIB)]);
  expect([beyond.fired, beyond.bytes.subarray(0, 400).toString().includes("transfer-encoding: chunked")]).toEqual([
    [0],
    true,
  ]);
});

/** Returns a stream whose client reads all or nothing, on a clock that stands still until the test advances it. */
function stream(
  plan: string,
  takes: boolean,
  more: Partial<FaultWitness> = {},
): { sink: FaultyStream; reports: DisturbedAnswer[]; pass(): void } {
  const reports: DisturbedAnswer[] = [];
  let nowUs = 0;
  const due: (() => void)[] = [];
  const timer = {
    nowUs: () => nowUs,
    after: (us: number, act: () => void) => {
      due.push(() => {
        nowUs += us;
        act();
      });
      return () => {};
    },
  };
  const output = { send: (_: Uint8Array, length: number) => (takes ? 0 : length), leave() {}, cut() {} };
  const witness = { told: (answer: DisturbedAnswer) => void reports.push(answer), ...more };
  const sink = new FaultyStream(new FaultPipeline(parsePlan(plan), "k"), output, timer, witness);
  sink.begin(HEAD);
  return {
    sink,
    reports,
    pass: () => {
      for (let act = due.shift(); act !== undefined; act = due.shift()) act();
    },
  };
}

test("at most 4 MiB of a disturbed answer wait, then its sender is paused", () => {
  const { sink, pass } = stream("T1@e0,1s", true);
  let written = 0;
  while (sink.write(event(65_000))) written += 65_000;
  expect(written).toBeGreaterThan(4 * MIB - 2 * 65_536);
  expect(written).toBeLessThan(4 * MIB);
  pass();
  expect(sink.full).toBe(false);
  const deaf = stream("B4", false);
  expect(deaf.sink.write(event(10))).toBe(false);
});

test("at most 1,000 operations of an answer are recorded, the others are only counted", () => {
  const { sink, reports, pass } = stream("B4", true);
  for (let i = 0; i < 800; i++) sink.write(event(10));
  sink.end();
  pass();
  expect(reports).toHaveLength(1);
  expect(reports[0]!.operations).toHaveLength(1000);
  expect(reports[0]!.unkept).toBeGreaterThan(600);
});

test("an observer without interest in operations gets everything else", () => {
  const { sink, reports, pass } = stream("B4", true, { isBrief: true });
  for (let i = 0; i < 20; i++) sink.write(event(10));
  sink.end();
  pass();
  expect(reports).toHaveLength(1);
  const [{ operations, unkept, account, end }] = reports as [DisturbedAnswer];
  expect([operations, unkept, account.came, account.fired[0]!.times, end]).toEqual([[], 0, 20, 20, "done"]);
});

test("the memory that a disturbed answer needs is counted, and untouched pieces count nothing", () => {
  const consumed = (plan: string) => {
    let bytes = 0;
    const { sink, pass } = stream(plan, true, { consumed: (more) => (bytes += more) });
    const [before, after] = ['data: {"choices":[{"text":"', '"}]}\n\n'].map((text) => Buffer.from(text));
    for (let i = 0; i < 100; i++, pass()) sink.writeParts(before!, Buffer.from("word"), after!);
    sink.end();
    pass();
    return bytes;
  };
  const spared = consumed("S6@e0");
  expect(spared).toBeGreaterThan(0);
  expect(consumed("S4")).toBeGreaterThan(20 * spared);
  expect(consumed("S12@e5,bytes=1MiB")).toBeGreaterThan(MIB);
});

test("an answer of more than 64 MiB in parts is sent unchanged, and the plan's observer is called", async () => {
  const clock = new WallClock();
  const part = Buffer.alloc(MIB, 120);
  const reports: DisturbedAnswer[] = [];
  const server = new HttpServer(
    {
      fetch: async (request) => {
        const parts = Number(new URL(request.url).searchParams.get("mib"));
        await server.disturb(request, {
          plan: parsePlan("E6@b10"),
          key: "k",
          told: (line) => void reports.push(line),
        });
        const whole = (bytes: number) => server.beginWhole(request, owner, 200, {}, bytes);
        let left = parts;
        const write = () => {
          while (left > 0 && !sink.full) {
            left--;
            sink.write(part);
          }
        };
        const owner = { onDrain: () => write(), onGone() {} };
        const { sink, response } = whole(parts * MIB);
        write();
        return response;
      },
    },
    { ...LOCAL, clock, epochSeconds },
  );
  const bytesOfAnswer = async (mib: number) =>
    (await (await fetch(`http://127.0.0.1:${server.port}/?mib=${mib}`)).arrayBuffer()).byteLength;
  await expect(bytesOfAnswer(1)).rejects.toThrow();
  expect(await bytesOfAnswer(65)).toBe(65 * MIB);
  expect(reports.map(({ end, account }) => [end, account.fired[0]!.times])).toEqual([
    ["fin", 1],
    ["done", 0],
  ]);
  await server.stop(true);
  clock.close();
});

test("attempts of at most 10,000 requests are counted, then the oldest is forgotten", async () => {
  const config = { engine: { seed: 0 }, queue: {}, faults: {}, logs: {}, text: {}, listen: {} };
  const orders = new FaultOrders(fakeKernel({ config }), { faulted() {} });
  const ask = async (key: string) => {
    const context = {
      request: { headers: new Headers({ "x-request-id": key }), url: "http://x/v1" },
      front: { version: () => "1.1", disturb: async () => {} },
    } as unknown as Context;
    const ordering = { fault: "A5,2", trusted: true } as Parameters<FaultOrders["of"]>[1];
    return (await orders.of(context, ordering, 0, () => ({}) as never))?.status ?? null;
  };
  const first = [await ask("first"), await ask("first"), await ask("first")];
  expect(first).toEqual([500, 500, null]);
  await ask("old");
  for (let i = 0; i < 10_000; i++) await ask(`${i}`);
  expect([await ask("old"), await ask("old"), await ask("old")]).toEqual([500, 500, null]);
  expect([await ask("9999"), await ask("9999")]).toEqual([500, null]);
});

/** Tests the truth log with full files, failing disks and slow writers. Serving must not notice. */

import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { flatEngineConfig } from "../../src/engine/config/engine-config.ts";
import type { FactsRecorder } from "../../src/engine/facts-recorder.ts";
import { Finish } from "../../src/engine/interface/types.ts";
import { RequestTimeline, RUNS_MAX } from "../../src/engine/observer.ts";
import { TruthFile } from "../../src/truth/file.ts";
import { formatPage } from "../../src/truth/format.ts";
import { createTruthLog, unwritable } from "../../src/truth/log.ts";
import { ID_BYTES, PAGE_WORDS, Page, RowKind, requestWords } from "../../src/truth/page.ts";
import { Ring } from "../../src/truth/ring.ts";
import type { EndLine, LogHeader, RequestLine, TruthLine } from "../../src/truth/schema.ts";
import type { TruthLogConfig } from "../../src/truth/truth-config.ts";
import { factsOf, small } from "./simulated-run.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-truth-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const config = (changes: Partial<TruthLogConfig> = {}): TruthLogConfig => ({
  file: join(folder, `${files++}.jsonl`),
  maxBytes: 2 ** 30,
  files: 4,
  ...changes,
});
const about: LogHeader = { engine: flatEngineConfig(small), engines: 1, epochUs: 1.7e15 };
const linesOf = (file: string) =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as TruthLine);
const never = (line: string) => {
  throw new Error(line);
};

/** Keeps every run and preemption. */
const recorder = {
  keep: () => true,
  dueUs: 500,
  lateSteps: 0,
  lateUs: 0,
  stepLateUs: 0,
  rebasedUs: 0,
} as FactsRecorder;
function timelineOf(id: string, tokens: readonly (readonly [step: number, count: number])[] = []): RequestTimeline {
  const timeline = new RequestTimeline(recorder, id, 7, 100, 50, { onTokens() {}, bytes: 1234 });
  timeline.queued(1, 110);
  for (const [step, count] of tokens) timeline.took(step, count);
  timeline.closeRun();
  return timeline;
}
function rowOf(timeline: RequestTimeline): RequestLine {
  const page = new Page();
  page.request(2, timeline, true);
  const texts: string[] = [];
  formatPage(page, (text) => texts.push(text));
  expect(texts.length).toBe(1);
  return JSON.parse(texts[0]!);
}

describe("rows", () => {
  test("a request row has all fields, with null for events that did not happen", () => {
    const timeline = timelineOf("cmpl-1");
    expect(rowOf(timeline)).toEqual({
      type: "request",
      engine: 2,
      order: 7,
      id: "cmpl-1",
      arrivalUs: 100,
      queuedUs: 110,
      scheduledUs: null,
      prefillEndUs: null,
      endUs: null,
      reason: null,
      promptTokens: 50,
      cachedTokens: 0,
      computedTokens: 0,
      recomputedTokens: 0,
      outputTokens: 0,
      bytes: 1234,
      requestId: null,
      firstWrittenUs: null,
      lastWrittenUs: null,
      late: { steps: 0, us: 0, rebasedUs: 0 },
      preemptions: 0,
      preempted: [],
      runs: [],
      droppedRuns: 0,
    });
    timeline.scheduledUs = 200;
    timeline.cachedTokens = 32;
    timeline.endUs = 2 ** 33 + 0.5;
    timeline.reason = Finish.Repetition;
    timeline.preempted.push(300, 400, 16, 450, Number.NaN, Number.NaN);
    expect(rowOf(timeline)).toMatchObject({
      computedTokens: 18,
      endUs: 2 ** 33 + 0.5,
      reason: "repetition",
      preempted: [
        { us: 300, resumedUs: 400, cachedTokens: 16 },
        { us: 450, resumedUs: null, cachedTokens: null },
      ],
    });
  });

  test("consecutive steps of equal width form one run", () => {
    const timeline = timelineOf("r", [
      [3, 1],
      [4, 1],
      [5, 1],
      [9, 1],
      [10, 2],
      [11, 2],
      [12, 1],
    ]);
    expect(rowOf(timeline).runs).toEqual([
      [3, 3],
      [9, 1],
      [10, 2, 2],
      [12, 1],
    ]);
    expect(timeline.prefillEndUs).toBe(500);
  });

  test("runs beyond the limit are counted, and the longest row fits into a page", () => {
    const steps = Array.from({ length: RUNS_MAX + 9 }, (_, i) => [2 * i + 1, 1] as const);
    const timeline = timelineOf("x".repeat(3 * ID_BYTES), steps);
    for (let i = 0; i < 1024; i++) timeline.preempted.push(i, i, i);
    expect(requestWords(timeline, true)).toBeLessThanOrEqual(PAGE_WORDS);
    const row = rowOf(timeline);
    expect(row.runs.length).toBe(RUNS_MAX);
    expect(row.droppedRuns).toBe(9);
    expect(row.id).toBe("x".repeat(ID_BYTES));
  });

  test.each(["", 'a"b\\c\n', "grüße", "日本語", "🙂", "\u2028"])("ids of any text: %j; lines are ASCII", (id) => {
    const page = new Page();
    page.request(0, timelineOf(id), true);
    page.request(0, timelineOf("next"), true);
    const texts: string[] = [];
    formatPage(page, (text) => texts.push(text));
    expect(texts.map((text) => JSON.parse(text).id)).toEqual([id, "next"]);
    expect(texts.every((text) => /^[\x20-\x7e]*$/.test(text))).toBe(true);
  });
});

describe("files", () => {
  const row = (n: number) => `{"type":"step","n":${String(n).padStart(980)}}`;

  test("a file ends before its limit, a fixed number is kept, and each has a header", () => {
    // Nine rows and the header are below the limit, ten rows are not, and eleven lines are not either.
    const where = config({ maxBytes: 10_400, files: 3 });
    const file = new TruthFile(where, about, never);
    for (let n = 0; n < 100; n++) file.line(row(n), RowKind.Step, 0);
    file.close({ run: 0, step: 0, request: 0 });
    const names = [`${where.file}.2`, `${where.file}.1`, where.file];
    const all = names.flatMap((name) => {
      expect(statSync(name).size).toBeLessThanOrEqual(10_400);
      const [header, ...rest] = linesOf(name);
      expect(header).toMatchObject({ type: "header", schema: 1, epochUs: 1.7e15 });
      return rest;
    });
    expect(existsSync(`${where.file}.3`)).toBe(false);
    const end = all.pop() as EndLine;
    expect(end).toMatchObject({ steps: 100, requests: 0 });
    // The end of the log is left, without a gap.
    const kept = all.map((line) => (line as unknown as { n: number }).n);
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 100 - kept.length + i));
    expect(kept.length).toBeGreaterThan(16);
  });

  test("with one file no older one is kept, and a line longer than the limit is still written", () => {
    const where = config({ maxBytes: 10, files: 1 });
    const file = new TruthFile(where, about, never);
    for (let n = 0; n < 3; n++) file.line(row(n), RowKind.Step, 0);
    file.flush();
    expect(linesOf(where.file).length).toBe(2);
    expect(linesOf(where.file)[0]).toMatchObject({ type: "header", file: 2 });
    expect(existsSync(`${where.file}.1`)).toBe(false);
    file.close({ run: 0, step: 0, request: 0 });
  });

  test("the log of an earlier run is kept", () => {
    const where = config();
    writeFileSync(where.file, "earlier\n");
    new TruthFile(where, about, never).close({ run: 1, step: 2, request: 3 });
    expect(readFileSync(`${where.file}.1`, "utf8")).toBe("earlier\n");
    expect(linesOf(where.file)[1]).toEqual({
      type: "end",
      steps: 0,
      requests: 0,
      dropped: { run: 1, step: 2, request: 3 },
    });
  });

  test("a missing folder causes one warning and counted losses, and once it is back the log continues with a header", () => {
    const inner = join(folder, "inner");
    mkdirSync(inner);
    const where = config({ file: join(inner, "t.jsonl"), maxBytes: 3500 });
    const warnings: string[] = [];
    const file = new TruthFile(where, about, (why) => warnings.push(why));
    for (let n = 0; n < 2; n++) file.line(row(n), RowKind.Step, 0);
    file.flush();
    rmSync(inner, { recursive: true });
    for (let n = 2; n < 8; n++) {
      file.line(row(n), RowKind.Step, 0);
      file.flush();
    }
    expect(warnings.length).toBe(1);
    expect(warnings[0]).toContain("ENOENT");
    // One of the six lines was written before the logger noticed that the file had been deleted.
    expect(file.lost.step).toBeGreaterThanOrEqual(5);
    mkdirSync(inner);
    file.line(row(8), RowKind.Step, 0);
    file.close({ run: 0, step: 0, request: 0 });
    expect(linesOf(where.file).map(({ type }) => type)).toEqual(["header", "step", "end"]);
    const { steps, dropped } = linesOf(where.file).at(-1) as EndLine;
    expect(steps + dropped.step).toBe(9);
    expect(warnings.length).toBe(1);
  });

  test("a file that cannot be written is reported before the start", () => {
    expect(unwritable(folder)).toContain("folder");
    expect(unwritable(join(folder, "none", "x.jsonl"))).toBe(`there is no folder ${join(folder, "none")}`);
    expect(unwritable(join(folder, "fresh.jsonl"))).toBeUndefined();
    if (process.getuid?.() === 0) return; // permissions do not bind root
    const closed = join(folder, "closed");
    mkdirSync(closed);
    chmodSync(closed, 0o500);
    expect(unwritable(join(closed, "x.jsonl"))).toBe("not allowed there (EACCES)");
  });
});

describe("a slow writer", () => {
  const limits = { pages: 2, pagesForRequests: 3, lingerUs: 1000 };

  test("runs and steps are dropped first, rows of requests last, and all are counted", () => {
    const sent: Page[] = [];
    const ring = new Ring(limits, (page) => sent.push(page));
    const observer = ring.observer(0);
    const step = (n: number) => observer.step(factsOf(n, { endUs: 4 }));
    let steps = 0;
    while (ring.dropped.step === 0) step(++steps);
    expect(sent.length).toBe(1);
    const twoRuns = () =>
      timelineOf("r", [
        [1, 1],
        [5, 1],
      ]);
    let requests = 0;
    while (ring.dropped.request === 0) {
      observer.request(twoRuns());
      requests++;
      step(++steps);
    }
    const texts: string[] = [];
    for (const page of sent) formatPage(page, (text) => texts.push(text));
    expect(sent.length).toBeLessThanOrEqual(limits.pagesForRequests);
    // Once the writer is back, all rows are accepted again.
    for (const page of sent.splice(0)) ring.returned(page);
    const droppedSteps = ring.dropped.step;
    step(++steps);
    observer.request(twoRuns());
    expect(ring.dropped.step).toBe(droppedSteps);
    ring.drain();
    for (const page of sent) formatPage(page, (text) => texts.push(text));
    const rows = texts.map((text) => JSON.parse(text) as TruthLine);
    const written = rows.filter((row) => row.type === "request");
    expect(written.length + ring.dropped.request).toBe(requests + 1);
    expect(rows.filter((row) => row.type === "step").length + ring.dropped.step).toBe(steps);
    const bare = written.filter(({ runs }) => runs.length === 0);
    expect(bare.length).toBeGreaterThan(0);
    expect(bare.every(({ droppedRuns }) => droppedRuns === 2)).toBe(true);
    expect(ring.dropped.run).toBe(2 * bare.length);
    expect(written.at(-1)!.runs.length).toBe(2);
  });

  test("a page that is not full is sent when the engine is idle, after its linger time, or when the previous page is back", () => {
    const sent: Page[] = [];
    const ring = new Ring(limits, (page) => sent.push(page));
    const observer = ring.observer(0);
    observer.step(factsOf(1, { endUs: 0 }));
    observer.idle();
    expect(sent.length).toBe(1);
    observer.step(factsOf(2, { endUs: 100 }));
    observer.step(factsOf(3, { endUs: 1100 }));
    expect(sent.length).toBe(1);
    ring.returned(sent[0]!);
    expect(sent.length).toBe(2);
    ring.returned(sent[1]!);
    observer.step(factsOf(4, { endUs: 2000 }));
    observer.step(factsOf(5, { endUs: 2999 }));
    expect(sent.length).toBe(2);
    observer.step(factsOf(6, { endUs: 3000 }));
    expect(sent.length).toBe(3);
  });

  test("memory is constant, because a million requests reuse the same few pages", () => {
    const pages = new Set<Page>();
    let rows = 0;
    const ring: Ring = new Ring(limits, (page) => {
      pages.add(page);
      rows += page.requests;
      ring.returned(page);
    });
    const observer = ring.observer(0);
    const timeline = timelineOf("a-request-id-of-usual-length-0123456789", [[1, 1]]);
    for (let i = 0; i < 1_000_000; i++) observer.request(timeline);
    ring.drain();
    expect(rows).toBe(1_000_000);
    expect(pages.size).toBeLessThanOrEqual(2);
    expect(ring.dropped).toEqual({ run: 0, step: 0, request: 0 });
  });
});

describe("the writing thread", () => {
  test("writes all rows in order, and the last line", async () => {
    const where = config();
    const log = createTruthLog(where, about, never);
    const observer = log.observer(3);
    for (let n = 1; n <= 10_000; n++) {
      observer.step(factsOf(n, { plannedUs: n, dueUs: n + 1, startUs: n + 2, endUs: n + 3 }));
      if (n % 10 === 0) observer.request(timelineOf(`r${n}`, [[n, 1]]));
      if (n % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await log.close();
    const rows = linesOf(where.file);
    expect(rows.length).toBe(11_002);
    expect(rows.at(-1)).toEqual({
      type: "end",
      steps: 10_000,
      requests: 1000,
      dropped: { run: 0, step: 0, request: 0 },
    });
    expect(rows.filter((row) => row.type === "step").map(({ step }) => step)).toEqual(
      Array.from({ length: 10_000 }, (_, i) => i + 1),
    );
    expect(log.dropped()).toEqual({ run: 0, step: 0, request: 0 });
  });

  // Only Linux has a device that is always full.
  test.skipIf(process.platform !== "linux")("a full disk causes one warning and counted losses", async () => {
    const warnings: string[] = [];
    const log = createTruthLog(config({ file: "/dev/full" }), about, (line) => warnings.push(line));
    const observer = log.observer(0);
    for (let n = 1; n <= 5000; n++) {
      observer.step(factsOf(n, { endUs: n }));
      observer.request(timelineOf(`r${n}`, [[n, 1]]));
      if (n % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await log.close();
    expect(warnings.length).toBe(1);
    expect(warnings[0]).toContain("--truth-log /dev/full: ENOSPC");
    expect(log.dropped()).toEqual({ run: 5000, step: 5000, request: 5000 });
    expect(statSync("/dev/full").isCharacterDevice()).toBe(true);
  });
});

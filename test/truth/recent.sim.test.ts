/** Compares the last requests of a running server with the truth log, for random runs and page sizes. */

import { expect, test } from "bun:test";
import fc from "fast-check";
import { flatEngineConfig } from "../../src/engine/config/engine-config.ts";
import type { FactsRecorder } from "../../src/engine/facts-recorder.ts";
import { RequestTimeline } from "../../src/engine/observer.ts";
import { rowsOf, rowsSince } from "../../src/truth/ask.ts";
import { observersOf, PART_STEPS, RecentRows, STEPS_KEPT, WORDS_MOST } from "../../src/truth/recent.ts";
import type { LogHeader, PageLine, RequestLine, StepLine } from "../../src/truth/schema.ts";
import { times } from "../size.ts";
import { dueTimes, factsOf, run, small } from "./simulated-run.ts";

const about: LogHeader = { engine: flatEngineConfig(small), engines: 1, epochUs: 0 };

interface PageContent {
  readonly steps: StepLine[];
  readonly requests: RequestLine[];
  readonly page: PageLine;
}

function tell(recent: RecentRows, since: number | "end" | null, limit: number, withSteps = true): PageContent {
  const pieces = rowsSince(recent, about, { since, limit, steps: withSteps });
  let text = "";
  for (;;) {
    const { value, done } = pieces.next();
    if (done) {
      const [header, ...lines] = text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(header).toMatchObject({ type: "header", schema: 1 });
      const of = <T>(type: string) => lines.filter((line) => line.type === type) as T[];
      return { steps: of("step"), requests: of("request"), page: value };
    }
    text += value;
  }
}

/** Reads all rows, page by page. */
function tellAll(recent: RecentRows, limit: number): PageContent {
  const steps = new Map<number, StepLine>();
  const requests: RequestLine[] = [];
  let page: PageLine | null = null;
  while (page === null || page.more) {
    const answer = tell(recent, page === null ? null : Number(page.next), limit);
    expect([answer.page.requests, answer.page.steps]).toEqual([answer.requests.length, answer.steps.length]);
    for (const step of answer.steps) steps.set(step.step, step);
    requests.push(...answer.requests);
    page = answer.page;
  }
  return { steps: [...steps.values()].toSorted((a, b) => a.step - b.step), requests, page };
}

test("pages of any size together contain the rows of the log and the steps that they name", async () => {
  const property = fc.asyncProperty(
    fc.nat(2 ** 31 - 1),
    fc.integer({ min: 1, max: 60 }),
    fc.integer({ min: 1, max: 30 }),
    fc.integer({ min: 1, max: 80 }),
    async (seed, requests, limit, kept) => {
      const recent = new RecentRows(kept, 1, 0, 5000);
      const log = await run({ seed, requests, observer: recent.observer(0) });
      const last = log.requests.slice(-kept);
      const answer = tellAll(recent, limit);
      expect(answer.requests).toEqual(last);
      expect(answer.page.next).toBe(String(5000 + requests));
      const named = new Set(
        last.flatMap(({ runs }) => runs.flatMap(([first, n]) => Array.from({ length: n }, (_, i) => first + i))),
      );
      expect(answer.steps).toEqual(log.steps.filter(({ step }) => named.has(step)));
      // Counts the requests that were dropped before they were read.
      expect(tell(recent, 5000, 1000).page.missed).toBe(requests - last.length);
      expect(tell(recent, "end", 10)).toMatchObject({ steps: [], requests: [], page: { more: false } });
      const request = last[seed % last.length]!;
      const [found] = JSON.parse(`[${[...rowsOf(recent, request.id)].join("")}]`);
      const { tokens, ...row } = found;
      expect(row).toEqual(request);
      expect(tokens.dueUs).toEqual(dueTimes(request, log.steps));
      expect(tokens.writeStartUs).toHaveLength(tokens.dueUs.length);
    },
  );
  await fc.assert(property, { numRuns: times(30) });
});

const recorder = {
  keep: () => true,
  dueUs: 500,
  lateSteps: 0,
  lateUs: 0,
  stepLateUs: 0,
  rebasedUs: 0,
} as FactsRecorder;

function timelineOf(id: string, runs: number, from = 1): RequestTimeline {
  const timeline = new RequestTimeline(recorder, id, 7, 100, 50, { onTokens() {} });
  for (let i = 0; i < runs; i++) timeline.took(from + 2 * i, 1);
  timeline.closeRun();
  return timeline;
}

const idsOf = (recent: RecentRows, asked: string): string[] =>
  JSON.parse(`[${[...rowsOf(recent, asked)].join("")}]`).map(({ id }: RequestLine) => id);

test("a request is found by the client's id, its answer's id and its row's id only", () => {
  const recent = new RecentRows(100, 1, 0, 0);
  const { observer } = observersOf(0, recent, null);
  for (const id of ["chatcmpl-a", "0_cmpl-b-0", "1_cmpl-b-0", "0_cmpl-b-1", "cmpl-b-0-0", "chatcmpl-cmpl-b-0", "7"])
    observer!(0).request(timelineOf(id, 1));
  expect(idsOf(recent, "a")).toEqual(["chatcmpl-a"]);
  expect(idsOf(recent, "chatcmpl-a")).toEqual(["chatcmpl-a"]);
  expect(idsOf(recent, "b")).toEqual(["0_cmpl-b-0", "1_cmpl-b-0", "0_cmpl-b-1"]);
  expect(idsOf(recent, "cmpl-b")).toEqual(["0_cmpl-b-0", "1_cmpl-b-0", "0_cmpl-b-1"]);
  expect(idsOf(recent, "1_cmpl-b-0")).toEqual(["1_cmpl-b-0"]);
  expect(idsOf(recent, "cmpl-b-0")).toEqual(["cmpl-b-0-0", "chatcmpl-cmpl-b-0"]);
  expect(idsOf(recent, "7")).toEqual(["7"]);
  for (const unknown of ["", "chatcmpl", "cmpl-", "B", "chatcmpl-b", "0_cmpl-b"]) {
    expect([unknown, idsOf(recent, unknown)]).toEqual([unknown, []]);
  }
});

const stepOf = (n: number, oldest = Number.POSITIVE_INFINITY) =>
  factsOf(n, { plannedUs: n, dueUs: n + 1, startUs: n + 2, endUs: n + 3, oldestStep: () => oldest });

test("memory is bounded: rows by number and size, steps by number", () => {
  const recent = new RecentRows(100_000, 2, 4, 0);
  const observer = recent.observer(5);
  const long = timelineOf("x".repeat(600), 4096);
  for (let i = 0; i < 2000; i++) observer.request(long);
  const words = recent.row(recent.first)!.length;
  expect(words * (recent.next - recent.first)).toBeLessThanOrEqual(WORDS_MOST);
  expect(words * (recent.next - recent.first + 1)).toBeGreaterThan(WORDS_MOST);
  expect(recent.row(recent.first - 1)).toBeNull();

  const capacity = STEPS_KEPT / 2;
  for (let n = 1; n <= capacity + 10; n++) observer.step(stepOf(n, 1));
  expect(recent.step(5, 10)).toBeNull();
  expect(recent.step(5, 11)![3]).toBe(11);
  expect(recent.step(5, capacity + 10)![3]).toBe(capacity + 10);
  expect(recent.step(5, capacity + 11)).toBeNull();
  expect(recent.step(4, 11)).toBeNull();
  // A request whose first steps were dropped has no times for them.
  observer.request(timelineOf("old", 3, 8));
  const [{ tokens }] = JSON.parse(`[${[...rowsOf(recent, "old")].join("")}]`);
  expect(tokens.dueUs).toEqual([null, null, 13]);
});

test("steps are kept while a kept or running generation names them, and not much longer", () => {
  const life = fc.record({ after: fc.nat(6 * PART_STEPS), tokens: fc.integer({ min: 1, max: 3 * PART_STEPS }) });
  const property = fc.property(fc.integer({ min: 1, max: 4 }), fc.array(life, { maxLength: 12 }), (most, lives) => {
    const recent = new RecentRows(most, 1, 0, 0);
    const observer = recent.observer(0);
    const spans = lives.map(({ after, tokens }) => ({ first: after + 1, last: after + tokens }));
    const ends = spans.toSorted((a, b) => a.last - b.last);
    const end = ends.at(-1)?.last ?? PART_STEPS;
    for (let step = 1; step <= end; step++) {
      const alive = spans.filter(({ first, last }) => first <= step && step <= last);
      observer.step(stepOf(step, Math.min(...alive.map(({ first }) => first))));
      for (const { first, last } of ends) {
        if (last !== step) continue;
        const timeline = new RequestTimeline(recorder, "a", 0, 0, 1, { onTokens() {} });
        for (let token = first; token <= last; token++) timeline.took(token, 1);
        timeline.closeRun();
        observer.request(timeline);
      }
    }
    const kept = ends.slice(-most);
    for (const { first, last } of kept)
      for (const step of [first, Math.floor((first + last) / 2), last]) expect(recent.step(0, step)?.[3]).toBe(step);
    // Parts that no row named when the last part began are dropped.
    const began = Math.floor(end / PART_STEPS) * PART_STEPS;
    const then = [...ends.filter(({ last }) => last < began).slice(-most), ...ends.filter(({ last }) => last >= began)];
    const needed = Math.min(began, ...then.map(({ first }) => first));
    const oldest = Math.floor(needed / PART_STEPS) * PART_STEPS;
    for (let step = 1; step < oldest; step += 97) expect(recent.step(0, step)).toBeNull();
  });
  fc.assert(property, { numRuns: times(40) });
});

test("pieces are short for long requests and for many requests", () => {
  const recent = new RecentRows(5000, 1, 0, 0);
  const observer = recent.observer(0);
  for (let n = 1; n <= 100_000; n++) observer.step(stepOf(n, 1));
  for (let i = 0; i < 5000; i++) {
    const timeline = new RequestTimeline(recorder, `chatcmpl-${i}`, i, 0, 1, { onTokens() {} });
    for (let step = 1; step <= (i === 7 ? 100_000 : 3); step++) timeline.took(step, 1);
    timeline.closeRun();
    observer.request(timeline);
  }
  const most = (pieces: Iterable<string>) => Math.max(...[...pieces].map((piece) => piece.length));
  expect(most(rowsSince(recent, about, { since: null, limit: 5000, steps: true }))).toBeLessThan(64 * 700);
  expect(most(rowsOf(recent, "7"))).toBeLessThan(512 * 20);
});

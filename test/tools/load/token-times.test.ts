/** Tests that tokens of a step get successive times in the order of their requests, and that gaps between them are right. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type RunsLine, TokenTimes } from "../../../src/tools/load/token-times.ts";

const step = (number: number, tokens: number, fromUs: number, untilUs: number, engine = 0) => ({
  ...{ type: "step" as const, engine, step: number, plannedUs: 0, preemptions: 0, tokens },
  ...{ dueUs: fromUs - 10, writeStartUs: fromUs, writeEndUs: untilUs },
});
const row = (order: number, scheduledUs: number, runs: RunsLine["runs"], engine = 0): RunsLine => ({
  ...{ engine, order, scheduledUs, runs },
});

const written = (times: TokenTimes, rows: readonly RunsLine[]) =>
  new Map([...times.of(rows)].map(([{ order }, all]) => [order, all.map((time) => time?.writtenUs)]));

describe("positions", () => {
  test("tokens are in the order of scheduling, for any order of the rows", () => {
    const times = new TokenTimes();
    times.add(step(1, 1, 100, 110));
    times.add(step(2, 3, 200, 230));
    times.add(step(3, 2, 300, 320));
    const rows = [row(7, 50, [[2, 2]]), row(3, 10, [[1, 2]]), row(9, 60, [[2, 2]])];
    expect(written(times, rows)).toEqual(
      new Map([
        [3, [110, 210]],
        [7, [220, 310]],
        [9, [230, 320]],
      ]),
    );
  });

  test("tokens that one request gets from a step come together, and each counts", () => {
    const times = new TokenTimes();
    times.add(step(1, 4, 100, 140));
    const rows = [row(0, 1, [[1, 1, 3]]), row(1, 2, [[1, 1]])];
    expect(written(times, rows)).toEqual(
      new Map([
        [0, [130, 130, 130]],
        [1, [140]],
      ]),
    );
  });

  test("tokens are within their part of the step", () => {
    const times = new TokenTimes();
    times.add({ ...step(1, 4, 100, 200), writtenUs: [190] });
    const rows = Array.from({ length: 4 }, (_, order) => row(order, order, [[1, 1]]));
    expect([...written(times, rows).values()]).toEqual([[145], [190], [195], [200]]);
  });

  test("each engine has its own steps; unknown steps have no time", () => {
    const times = new TokenTimes();
    times.add(step(1, 1, 100, 110));
    times.add(step(1, 1, 500, 510, 1));
    times.add({ ...step(2, 1, 0, 0), writeStartUs: null, writeEndUs: null });
    const rows = [row(0, 1, [[1, 2]]), row(1, 1, [[1, 1]], 1)];
    expect(written(times, rows)).toEqual(
      new Map([
        [0, [110, undefined]],
        [1, [510]],
      ]),
    );
  });
});

test("a client that reads as the server writes has no error in its gaps, for any duration of writing", () => {
  const any = fc.record({
    spans: fc.array(fc.integer({ min: 1, max: 50_000 }), { minLength: 2, maxLength: 30 }),
    requests: fc.integer({ min: 1, max: 40 }),
  });
  fc.assert(
    fc.property(any, ({ spans, requests }) => {
      const times = new TokenTimes();
      const seen: number[][] = Array.from({ length: requests }, () => []);
      spans.forEach((us, i) => {
        const fromUs = (i + 1) * 100_000;
        times.add(step(i + 1, requests, fromUs, fromUs + us));
        for (const [place, stamps] of seen.entries()) stamps.push(fromUs + (us * (place + 1)) / requests);
      });
      const rows = Array.from({ length: requests }, (_, order) => row(order, order, [[1, spans.length]]));
      for (const [{ order }, all] of times.of(rows))
        for (const [i, time] of all.entries()) expect(time!.writtenUs).toBeCloseTo(seen[order]![i]!, 3);
    }),
    { numRuns: 50 },
  );
});

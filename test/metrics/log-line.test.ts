/** Tests the log line with the engine's throughput and queue, which vLLM prints every ten seconds. */
import { expect, test } from "bun:test";
import type { EngineSnapshot } from "../../src/engine/interface/types.ts";
import { type LogState, logLines } from "../../src/metrics/log-line.ts";
import { emptyEngine, emptySnapshot } from "./snapshots.ts";

const withFirstTokens = (count: number, rest: Partial<EngineSnapshot>): EngineSnapshot => {
  const empty = emptyEngine();
  const timeToFirstToken = { ...empty.histograms.timeToFirstToken, count };
  return { ...empty, ...rest, histograms: { ...empty.histograms, timeToFirstToken } };
};
const after = (state: LogState, ...engines: EngineSnapshot[]) => logLines(state, emptySnapshot(engines), 10, 0);

test("the line equals vLLM's: computed prompt tokens, rates of the interval", () => {
  const first = after([], withFirstTokens(1, { promptTokens: 1000, generationTokens: 10, prefixQueries: 1000 }));
  const { lines } = after(
    first.state,
    withFirstTokens(4, {
      promptTokens: 1223,
      promptTokensCached: 100,
      generationTokens: 466,
      prefixQueries: 1500,
      prefixHits: 500,
      running: 3,
      kvUsage: 0.0123,
    }),
  );
  expect(lines).toEqual([
    "Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 45.6 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 33.3%",
  ]);
});

test("before the first lookup there is no hit rate, and deferred requests count as waiting and are also listed", () => {
  const { lines } = after([], withFirstTokens(0, { generationTokens: 1, waiting: 2, deferred: 3 }));
  expect(lines[0]).toEndWith("Running: 0 reqs, Waiting: 5 reqs, Deferred: 3 reqs, GPU KV cache usage: 0.0%");
});

test("there is one more line after the last token, then none", () => {
  const idle = after([], emptyEngine());
  expect(idle.lines).toEqual([]);
  const done = withFirstTokens(1, { generationTokens: 5 });
  const busy = after(idle.state, done);
  const last = after(busy.state, done);
  expect(busy.lines[0]).toContain("generation throughput: 0.5 tokens/s");
  expect(last.lines[0]).toContain("generation throughput: 0.0 tokens/s");
  expect(after(last.state, done).lines).toEqual([]);
});

test("the hit rate forgets intervals beyond 1,000 requests, except the newest", () => {
  const rate = (lines: string[]) => /hit rate: (\S+)%/.exec(lines[0]!)?.[1];
  const at = (requests: number, prefixQueries: number, prefixHits: number) =>
    withFirstTokens(requests, { prefixQueries, prefixHits, generationTokens: requests });
  const first = after([], at(600, 100, 0));
  const second = after(first.state, at(1000, 200, 100));
  const third = after(second.state, at(1001, 300, 200));
  const fourth = after(third.state, at(9000, 400, 200));
  expect([first, second, third, fourth].map(({ lines }) => rate(lines))).toEqual(["0.0", "50.0", "100.0", "0.0"]);
});

test("a tie is rounded to the even digit, as in Python", () => {
  const usage = (kvUsage: number) => after([], withFirstTokens(0, { generationTokens: 1, kvUsage })).lines[0];
  expect(usage(1 / 16)).toEndWith("usage: 6.2%");
  expect(usage(3 / 16)).toEndWith("usage: 18.8%");
  expect(usage(1)).toEndWith("usage: 100.0%");
});

test("each engine has its own line and its own pauses", () => {
  const { lines } = logLines([], emptySnapshot([emptyEngine(), { ...emptyEngine(), generationTokens: 20 }]), 10, 3);
  expect(lines.map((line) => line.slice(0, 11))).toEqual(["Engine 004:"]);
});

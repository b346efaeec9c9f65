/** Does a run say when its numbers are not what they seem, and else nothing? */
import { expect, test } from "bun:test";
import { CHUNKS_KEPT } from "../../src/load/many-gaps.ts";
import { type Evidence, warningsOf } from "../../src/load/warnings.ts";
import { bytesOf, read, recordOf, workedExample } from "./played.ts";

/** 5 tokens in 4 chunks, with the tokens of each. */
const played = (counts: boolean) => {
  const text = workedExample(counts).map(([, piece]) => piece);
  return recordOf(read([[0, bytesOf(text.join(""))]]).exchange, { wantedTokens: 5 });
};
const MERGED = played(true);
const PLAIN = { ...MERGED, chunkUs: new Float64Array(5), chunkTokens: new Int32Array(5).fill(1) };

const QUIET: Evidence = {
  records: [PLAIN],
  warmUp: [PLAIN],
  schedDelay: { count: 1, mean: 0.2, p99: 1 },
  capped: false,
  ttft: { count: 1, mean: 200, p50: 200 },
  cpuShare: 0.8,
  measuredS: 10,
  stream: true,
  hasUsage: true,
  badLines: 0,
  droppedTurns: 0,
  estimatedLengths: false,
  metricsMissing: null,
  folded: 0,
};

test("nothing is said of a run whose numbers are what they seem", () => {
  expect(warningsOf(QUIET)).toEqual([]);
  expect(warningsOf({ ...QUIET, cpuShare: 1, measuredS: 0.5 })).toEqual([]);
});

const CASES: readonly (readonly [name: string, evidence: Partial<Evidence>, says: string])[] = [
  [
    "sent late, against TTFT",
    { schedDelay: { count: 1, mean: 1, p99: 3 } },
    "p99 3.00 ms, 1.5 % of the median TTFT: the client was the limit",
  ],
  [
    "sent late, more than 50 ms",
    { schedDelay: { count: 1, mean: 9, p99: 51 }, ttft: { count: 1, mean: 9000, p50: 9000 } },
    "requests left late: sched delay p99 51.00 ms",
  ],
  [
    "sent late, and no first token",
    { schedDelay: { count: 1, mean: 9, p99: 51 }, ttft: { count: 0, mean: null } },
    "p99 51.00 ms: the client was the limit",
  ],
  [
    "sent late, with a cap",
    { schedDelay: { count: 1, mean: 1, p99: 3 }, capped: true },
    "--concurrency or the client was the limit",
  ],
  ["a busy event loop", { cpuShare: 0.81 }, "event loop used 81 % of a core"],
  ["no streaming", { stream: false }, "TTFT is the time of the whole answer"],
  ["no usage", { records: [{ ...PLAIN, usage: false }] }, "1 answers came without usage"],
  ["too many chunks", { folded: 7 }, `more than ${CHUNKS_KEPT} chunks`],
  ["merged chunks", { records: [MERGED] }, "fewer chunks than tokens: the flat itl keys are per chunk"],
  ["merged, and who knows how", { records: [played(false)] }, "their ITL is per chunk, not per token"],
  ["other lengths", { records: [{ ...PLAIN, wantedTokens: 6 }] }, "1 of 1 answers are not as long as asked for"],
  ["no end mark", { records: [{ ...PLAIN, done: false }] }, "1 streams ended without [DONE]"],
  ["a warm cache", { warmUp: [{ ...PLAIN, cachedTokens: 16 }] }, "an earlier run left it warm"],
  ["bad lines", { badLines: 2 }, "2 lines of the dataset hold no request"],
  ["dropped turns", { droppedTurns: 3 }, "3 turns were left out"],
  ["metrics missing", { metricsMissing: "404" }, "metrics could not be read (404)"],
  ["estimated lengths", { estimatedLengths: true }, "lengths of made-up prompts are estimated"],
];

for (const [name, evidence, says] of CASES) {
  test(`${name}: one warning`, () => {
    const found = warningsOf({ ...QUIET, ...evidence });
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
  });
}

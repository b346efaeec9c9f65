/** Tests that a run warns about misleading numbers, and only then. */
import { expect, test } from "bun:test";
import { CHUNKS_KEPT } from "../../../src/tools/load/many-gaps.ts";
import type { RequestRecord } from "../../../src/tools/load/requests/types.ts";
import { type Evidence, warningsOf } from "../../../src/tools/load/warnings.ts";
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
  pace: { timed: true, capped: false },
  cpuShare: 0.8,
  measuredS: 10,
  stream: true,
  dialect: "openai-chat",
  asksLength: true,
  badLines: 0,
  droppedTurns: 0,
  estimatedLengths: false,
  metricsMissing: null,
  folded: 0,
};

test("no warning on lengths if requests cannot ask for one, or if answers do not state it", () => {
  const other = [{ ...PLAIN, wantedTokens: 6 }];
  expect(warningsOf({ ...QUIET, asksLength: false, records: other, estimatedLengths: true })).toEqual([]);
  const whole = warningsOf({
    ...QUIET,
    records: other.map((r) => ({ ...r, usage: false })),
    dialect: "triton-http",
    stream: false,
  });
  expect(whole).toEqual([expect.stringContaining("without streaming")]);
  const estimated = warningsOf({ ...QUIET, dialect: "triton-http", estimatedLengths: true });
  expect(estimated).toEqual(["the server has no /tokenize: lengths of generated prompts are estimated"]);
});

test("no warning for a run with sound numbers", () => {
  expect(warningsOf(QUIET)).toEqual([]);
  expect(warningsOf({ ...QUIET, cpuShare: 1, measuredS: 0.5 })).toEqual([]);
});

/**
 * Returns `count` requests `gapMs` apart, with the first token after 50 ms and 20 ms between tokens. `lateMs` gives the
 * lateness of each send.
 */
function late(count: number, gapMs: number, lateMs: (i: number) => number): RequestRecord[] {
  return Array.from({ length: count }, (_, i) => {
    const intendedUs = i * gapMs * 1000;
    const sendUs = intendedUs + lateMs(i) * 1000;
    const chunkUs = Float64Array.from([50, 70, 90, 110, 130], (ms) => sendUs + ms * 1000);
    return { ...PLAIN, intendedUs, sendUs, chunkUs, firstUs: chunkUs[0]!, lastUs: chunkUs[4]!, endUs: chunkUs[4]! };
  });
}

const textOf = (records: RequestRecord[], pace: Partial<Evidence["pace"]> = {}): string =>
  warningsOf({ ...QUIET, records, pace: { ...QUIET.pace, ...pace } }).join();

/** One request in fifty is this late, which affects the tail but not the median. */
const tail = (ms: number) => late(200, 500, (i) => (i % 50 === 7 ? ms : 0.2));
/** Each request is later than the one before. */
const behind = (ms: number) => late(200, 500, (i) => i * ms);

test("no warning if requests are late by less than a tenth of the measured value", () => {
  expect(textOf(tail(2.3))).toBe("");
  expect(textOf(tail(4.7))).toBe("");
  expect(textOf(late(200, 500, () => 1.9))).toBe("");
  expect(textOf(behind(0.01))).toBe("");
  // Slots of a closed loop have no intended time that could be missed. With a limit, the limit delays sends and not the
  // client.
  expect(
    textOf(
      late(200, 500, () => 2.1),
      { timed: false },
    ),
  ).toBe("");
  expect(
    textOf(
      late(200, 500, () => 2.1),
      { capped: true },
    ),
  ).toBe("");
  // 1.8 % longer than its 100 ms, but less than one request behind.
  expect(textOf(late(3, 50, (i) => 0.9 * i))).toBe("");
  // Late because of a retry.
  expect(textOf(late(9, 500, () => 900).map((record) => ({ ...record, retries: 1 })))).toBe("");
});

test.each([
  ["the tail of TTFT", tail(6), {}, "6.00 ms of the p99 of TTFT from the intended time, 12 %"],
  ["the median of TTFT", late(9, 500, () => 6), { timed: false }, "6.00 ms of the p50 of TTFT"],
  ["the rate", behind(6), { capped: true }, "1.98 requests/s instead of 2.00: --concurrency or the client"],
  ["gaps between tokens", late(9, 500, () => 2.1), {}, "half of them by 2.10 ms or more, 11 % of the mean gap"],
])("requests sent late by more than a tenth of the value give a warning: %s", (_, records, pace, says) => {
  expect(textOf(records, pace)).toMatch(/^requests left late: .* was the limit\. TTFT from the send hides it/);
  expect(textOf(records, pace)).toContain(says);
});

const CASES: readonly (readonly [name: string, evidence: Partial<Evidence>, says: string])[] = [
  ["a busy event loop", { cpuShare: 0.81 }, "event loop used 81 % of a core"],
  ["no streaming", { stream: false }, "TTFT is the time of the whole answer"],
  ["no usage", { records: [{ ...PLAIN, usage: false }] }, "1 answers came without usage"],
  ["too many chunks", { folded: 7 }, `more than ${CHUNKS_KEPT} chunks`],
  ["merged chunks", { records: [MERGED] }, "fewer chunks than tokens: the flat itl keys are per chunk"],
  [
    "merged chunks with unknown numbers of tokens",
    { records: [played(false)] },
    "their ITL is per chunk, not per token",
  ],
  ["other lengths", { records: [{ ...PLAIN, wantedTokens: 6 }] }, "1 of 1 answers do not have the requested length"],
  ["no end mark", { records: [{ ...PLAIN, done: false }] }, "1 streams ended without [DONE]"],
  ["a warm cache", { warmUp: [{ ...PLAIN, cachedTokens: 16 }] }, "an earlier run filled it"],
  ["bad lines", { badLines: 2 }, "2 lines of the dataset have no request"],
  ["dropped turns", { droppedTurns: 3 }, "3 turns were skipped"],
  ["metrics missing", { metricsMissing: "404" }, "metrics could not be read (404)"],
  ["estimated lengths", { estimatedLengths: true }, "lengths of generated prompts are estimated"],
];

for (const [name, evidence, says] of CASES) {
  test(`${name}: one warning`, () => {
    const found = warningsOf({ ...QUIET, ...evidence });
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
  });
}

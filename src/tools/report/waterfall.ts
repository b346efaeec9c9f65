/** Chooses the requests of the timeline, and the token gaps that it marks. */
import { drawable, isNumber } from "./numbers.ts";
import type { Waterfall } from "./plot.ts";
import type { ReportRecord, UnderstudyPart } from "./result.ts";
import { BARS, evenly, OUTLIERS } from "./sample.ts";

/** Gaps in milliseconds that vLLM's `--plot-timeline` marks. */
const THRESHOLDS_MS = [25, 50] as const;

export function waterfallOf(
  records: readonly ReportRecord[],
  { distributions = {} }: UnderstudyPart,
): Waterfall | null {
  const sent = records.filter(({ sendUs }) => isNumber(sendUs)).sort((a, b) => a.sendUs - b.sendUs);
  if (sent.length === 0) return null;
  const rows = evenly(sent.length, BARS).map((at) => sent[at]!);
  const thresholdsMs = thresholds(distributions.itl?.p50);
  const seconds = (pick: (record: ReportRecord) => number | undefined) =>
    rows.map((record) => {
      const us = pick(record);
      return isNumber(us) ? Math.round(us / 10) / 1e5 : null;
    });
  return {
    ids: rows.map(({ requestId }) => requestId),
    intended: seconds(({ intendedUs }) => intendedUs),
    send: seconds(({ sendUs }) => sendUs),
    scheduled: seconds(({ scheduledUs }) => scheduledUs),
    first: seconds(({ firstUs }) => firstUs),
    last: seconds(({ lastUs }) => lastUs),
    end: seconds(({ endUs, lastUs, sendUs }) => [endUs, lastUs, sendUs].find(isNumber)),
    inputTokens: rows.map(({ inputTokens }) => inputTokens),
    outputTokens: rows.map(({ outputTokens }) => outputTokens),
    failure: rows.map(({ failure }) => (failure === null ? "" : `${failure.kind}: ${failure.message}`.slice(0, 200))),
    outliers: outliersOf(rows, thresholdsMs[0]),
    thresholdsMs,
  };
}

/**
 * Returns the gaps to mark, in milliseconds. If the median gap is longer than vLLM's first threshold, they are twice and four
 * times the median, because otherwise most gaps would be marked.
 */
function thresholds(median: number | null | undefined): readonly [number, number] {
  if (!isNumber(median) || median < THRESHOLDS_MS[0]) return THRESHOLDS_MS;
  return [Math.round(2 * median), Math.round(4 * median)];
}

/** Returns the gaps above a limit. If there are too many, only the longest. */
function outliersOf(rows: readonly ReportRecord[], leastMs: number): Waterfall["outliers"] {
  const gaps: (readonly [row: number, at: number, gapMs: number])[] = [];
  rows.forEach(({ chunkUs }, row) => {
    for (let i = 1; i < chunkUs.length; i++) {
      const gapMs = (chunkUs[i]! - chunkUs[i - 1]!) / 1000;
      if (gapMs >= leastMs) gaps.push([row, chunkUs[i]! / 1e6, gapMs]);
    }
  });
  gaps.sort((a, b) => b[2] - a[2]);
  // Draw the longest gaps last, so that they are on top.
  const longest = gaps.slice(0, OUTLIERS).reverse();
  return {
    row: longest.map(([row]) => row),
    at: longest.map(([, at]) => Math.round(at * 1e5) / 1e5),
    gapMs: longest.map(([, , gapMs]) => drawable(gapMs)!),
  };
}

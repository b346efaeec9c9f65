/** Makes plots of latencies: their distributions, their dependence on prompt length and load, and their measuring errors. */

import { isAlike } from "./distribution.ts";
import { labelOf } from "./names.ts";
import { drawable, isNumber } from "./numbers.ts";
import type { Color, Mark, Plot, PlotLine } from "./plot.ts";
import type { Distribution, Histogram, ReportRecord, SweepPoint, UnderstudyPart } from "./result.ts";
import { DOTS, evenly, evenlyWithGreatest, LINE_POINTS, shareOf } from "./sample.ts";

/** Metrics with a plot of their own. The second name is a related metric that is drawn in the same plot. */
const CDFS: readonly (readonly [metric: string, beside: string, color: Color])[] = [
  ["ttft", "ttft_intended", "blue"],
  ["e2el", "e2el_intended", "green"],
  ["itl", "icl", "purple"],
  ["tpot", "", "orange"],
  ["queue", "", "grey"],
];
/** Number of values from which a distribution is drawn as a line. With fewer it is drawn in steps. */
const SMOOTH_FROM = 100;
/** Largest ratio of the bounds of neighbouring buckets. A larger ratio means that no values lie between. */
const GAP = 1.2;
/** Share of measuring errors that is cut off at each end. Otherwise a single stall of the client would dominate the axis. */
const TAILS = 0.01;
/** Ratio of the largest to the smallest value from which the axis is logarithmic. */
const LOG_FROM = 15;

/** Largest difference of prompt lengths, as a share of the longest, at which prompts count as equally long. */
const ALIKE = 0.05;

export function latencyPlots({ distributions = {}, slo = {} }: UnderstudyPart): Plot[] {
  return CDFS.flatMap(([metric, beside, color]) => {
    const distribution = distributions[metric];
    if (!distribution?.histogram || distribution.count === 0) return [];
    const related = beside === "" ? undefined : distributions[beside];
    const differs = related?.histogram && related.count > 0 && !isAlike(distribution, related);
    const kind = distribution.count < SMOOTH_FROM ? "step" : "line";
    const lines: PlotLine[] = [{ label: labelOf(metric), color, kind }];
    if (differs) lines.push({ label: labelOf(beside), color: "grey", kind, dash: true });
    const limit = slo[metric];
    const marks: Mark[] = isNumber(limit) ? [{ axis: "x", at: limit, label: `SLO ${limit} ms`, color: "red" }] : [];
    const note = `Share of ${metric === "itl" || metric === "icl" ? "gaps" : "requests"} at or below${
      isNumber(limit) ? `; ${percentBelow(distribution.histogram, limit)} within the SLO` : ""
    }. n = ${distribution.count.toLocaleString("en-US")}`;
    return [
      cdf(`cdf-${metric}`, labelOf(metric), note, lines, differs ? [distribution, related] : [distribution], marks),
    ];
  });
}

function percentBelow({ bounds, counts }: Histogram, limit: number): string {
  const all = counts.reduce((sum, count) => sum + count, 0);
  const below = counts.reduce((sum, count, i) => (bounds[i]! <= limit ? sum + count : sum), 0);
  return `${(Math.floor((below / all) * 1000) / 10).toFixed(1)} %`;
}

/** Draws cumulative shares of distributions over a common axis. A share of `tails` at each end is not drawn. */
function cdf(
  id: string,
  title: string,
  note: string,
  lines: readonly PlotLine[],
  of: readonly Distribution[],
  marks: readonly Mark[],
  tails = 0,
): Plot {
  const allBounds = [...new Set(of.flatMap(({ histogram }) => histogram!.bounds))].filter(isNumber);
  const [least, most] = [
    Math.min(...of.map(({ histogram }) => quantile(histogram!, tails))),
    Math.max(...of.map(({ histogram }) => quantile(histogram!, 1 - tails))),
  ];
  const all = allBounds.filter((bound) => bound >= least && bound <= most).sort((a, b) => a - b);
  const positive = all.filter((bound) => bound > 0.01);
  const log = all[0]! >= 0 && positive.length > 1 && positive.at(-1)! > LOG_FROM * positive[0]!;
  const visible = log ? positive : all;
  // If only one bound is visible, add 0, because a curve needs two points.
  const range = visible.length > 1 ? visible : [0, ...visible].sort((a, b) => a - b);
  const some = evenly(range.length, LINE_POINTS).map((at) => range[at]!);
  const isApart = (bound: number, before = 0) => before > 0 && bound > GAP * before;
  const bounds = some.flatMap((bound, i) => (isApart(bound, some[i - 1]) ? [bound / 1.001, bound] : [bound]));
  const ends = bounds.at(-1)!;
  // Show a limit beyond all values if it is not too far away.
  const limits = marks.map(({ at }) => at).filter((at) => at > ends && at < ends * 2);
  const xs = [...bounds, ...limits.map((at) => at * 1.02)];
  return {
    id,
    title,
    note,
    x: { label: "ms", log },
    y: { label: "", percent: true, from: 0, to: 1 },
    lines,
    data: [xs.map(drawable), ...of.map(({ histogram }) => shares(histogram!, xs))],
    marks,
  };
}

/** Returns the smallest bound that at least this share of the values does not exceed. */
function quantile({ bounds, counts }: Histogram, share: number): number {
  const target = share * counts.reduce((sum, count) => sum + count, 0);
  let [below, at] = [counts[0]!, 0];
  while (below < target && at + 1 < counts.length) below += counts[++at]!;
  return bounds[at]!;
}

function shares({ bounds, counts }: Histogram, xs: readonly number[]): (number | null)[] {
  const all = counts.reduce((sum, count) => sum + count, 0);
  let [at, below] = [0, 0];
  return xs.map((x) => {
    while (at < bounds.length && bounds[at]! <= x) below += counts[at++]!;
    return drawable(below / all);
  });
}

/**
 * Plots TTFT by prompt length, or by send time if all prompts are about equally long. For answers without tokens, plots the
 * time of the whole answer.
 */
export function scatter(records: readonly ReportRecord[], { slo = {} }: UnderstudyPart): Plot | null {
  const metric = records.some(({ firstUs }) => isNumber(firstUs)) ? "ttft" : "e2el";
  const endUs = ({ firstUs, lastUs }: ReportRecord) => (metric === "ttft" ? firstUs : lastUs);
  const label = labelOf(metric);
  const good = records.filter((record) => record.failure === null && endUs(record) >= record.sendUs);
  if (good.length < 2) return null;
  good.sort((a, b) => a.inputTokens - b.inputTokens);
  const [shortest, longest] = [good[0]!.inputTokens, good.at(-1)!.inputTokens];
  const isAsLong = longest - shortest < ALIKE * longest;
  if (isAsLong) good.sort((a, b) => a.sendUs - b.sendUs);
  const latencies = good.map((record) => (endUs(record) - record.sendUs) / 1000);
  const chosen = evenlyWithGreatest(latencies, DOTS);
  const limit = slo[metric];
  const lengths = shortest === longest ? longest : `${shortest} to ${longest}`;
  const about = isAsLong ? ` All prompts have ${lengths} tokens.` : "";
  const x = ({ inputTokens, sendUs }: ReportRecord) => (isAsLong ? drawable(sendUs / 1e6) : inputTokens);
  return {
    id: "scatter",
    title: `${label} by ${isAsLong ? "time of sending" : "input length"}`,
    note: `Each dot is a request: ${shareOf(chosen.length, good.length, "requests")} with an answer.${about}`,
    x: { label: isAsLong ? "seconds" : "input tokens" },
    y: { label: "ms", from: 0 },
    lines: [{ label, color: "blue", kind: "dots" }],
    data: [chosen.map((at) => x(good[at]!)), chosen.map((at) => drawable(latencies[at]))],
    marks: isNumber(limit) ? [{ axis: "y", at: limit, label: `SLO ${limit} ms`, color: "red" }] : [],
  };
}

export function truthPlot({ truth }: UnderstudyPart): Plot | null {
  const colors: readonly Color[] = ["blue", "purple", "green", "orange", "grey"];
  const withValues = Object.entries(truth?.errors ?? {})
    .filter(([, { histogram, count }]) => histogram && count > 0)
    .slice(0, colors.length);
  if (withValues.length === 0) return null;
  const lines = withValues.map(
    ([metric], i): PlotLine => ({ label: labelOf(metric), color: colors[i]!, kind: "step" }),
  );
  const of = withValues.map(([, distribution]) => distribution);
  return cdf(
    "truth",
    "Measured minus true",
    `Difference between the client's figures and the times that the server reports. ${100 - 200 * TAILS} % are drawn; the table has all.`,
    lines,
    of,
    [{ axis: "x", at: 0, label: "exact", color: "grey" }],
    TAILS,
  );
}

/** Plots latency and throughput by request rate, or by concurrency if there is no rate. */
export function sweepPlots({ sweep = [], slo = {} }: UnderstudyPart): Plot[] {
  const byRate = sweep.every(({ request_rate: rate }) => isNumber(rate));
  const at = ({ request_rate: rate, concurrency }: SweepPoint) => (byRate ? rate : concurrency) ?? null;
  const points = sweep.filter((point) => isNumber(at(point))).sort((a, b) => at(a)! - at(b)!);
  if (points.length < 2) return [];
  const x = { label: byRate ? "requests/s offered" : "concurrent requests" };
  const xs = points.map((point) => drawable(at(point)));
  const plots = (["ttft", "tpot", "itl", "e2el"] as const).flatMap((metric, i): Plot[] => {
    if (!points.some(({ distributions }) => distributions[metric]?.count)) return [];
    const color = (["blue", "orange", "purple", "green"] as const)[i]!;
    const percentiles = (["p50", "p90", "p99"] as const).filter((p) =>
      points.some(({ distributions }) => isNumber(distributions[metric]?.[p])),
    );
    const limit = slo[metric];
    return [
      {
        id: `sweep-${metric}`,
        title: `${labelOf(metric)} against ${byRate ? "rate" : "concurrency"}`,
        note: "",
        x,
        y: { label: "ms", log: true },
        lines: percentiles.map((p, n) => ({
          label: p,
          color: n === 0 ? color : n === 1 ? "grey" : "red",
          kind: "line",
          dash: n === 1,
        })),
        data: [xs, ...percentiles.map((p) => points.map(({ distributions }) => drawable(distributions[metric]?.[p])))],
        marks: isNumber(limit) ? [{ axis: "y", at: limit, label: `SLO ${limit} ms`, color: "red" }] : [],
      },
    ];
  });
  type Curve = readonly [label: string, color: Color, value: (point: SweepPoint) => number | null | undefined];
  const perSecond = (id: string, title: string, unit: string, note: string, curves: readonly Curve[]): Plot => ({
    ...{ id: `sweep-${id}`, title, note, x, y: { label: unit, from: 0 }, marks: [] },
    lines: curves.map(([label, color]) => ({ label, color, kind: "line" })),
    data: [xs, ...curves.map(([, , value]) => points.map((point) => drawable(value(point))))],
  });
  const requests: Curve = ["throughput", "blue", (point) => point.request_throughput];
  const good: Curve = ["goodput", "green", (point) => point.request_goodput];
  const tokens: Curve = ["output tokens/s", "blue", (point) => point.output_throughput];
  const isJudged = points.some(({ request_goodput: goodput }) => isNumber(goodput));
  const note = isJudged ? "Answered, and answered within the SLO." : "Answered.";
  return [
    perSecond("throughput", "Requests per second", "requests/s", note, isJudged ? [requests, good] : [requests]),
    ...(points.some(({ output_throughput: rate }) => isNumber(rate))
      ? [perSecond("tokens", "Output tokens per second", "tokens/s", "", [tokens])]
      : []),
    ...plots,
  ];
}

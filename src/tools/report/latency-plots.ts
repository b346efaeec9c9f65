/** How are the latencies distributed, what do they depend on, and by how much do measured ones miss the truth? */

import { isAlike } from "./distribution.ts";
import { labelOf } from "./names.ts";
import { drawable, isNumber } from "./numbers.ts";
import type { Color, Mark, Plot, PlotLine } from "./plot.ts";
import type { Distribution, Histogram, ReportRecord, SweepPoint, UnderstudyPart } from "./result.ts";
import { DOTS, evenly, evenlyWithGreatest, LINE_POINTS, shareOf } from "./sample.ts";

/** A plot of each, with what belongs beside it. */
const CDFS: readonly (readonly [metric: string, beside: string, color: Color])[] = [
  ["ttft", "ttft_intended", "blue"],
  ["e2el", "e2el_intended", "green"],
  ["itl", "icl", "purple"],
  ["tpot", "", "orange"],
  ["queue", "", "grey"],
];
/** With fewer, a value is a step. */
const SMOOTH_FROM = 100;
/** Bounds of neighbouring buckets are closer than this; what is farther apart has nothing between. */
const GAP = 1.2;
/** Share of measuring errors cut at each end: a client that stood still once would leave nothing of the others to see. */
const TAILS = 0.01;
/** Where the greatest is so many times the least, a linear axis would show nothing of most. */
const LOG_FROM = 15;

/** Prompts whose lengths differ by less than this share of the longest. */
const ALIKE = 0.05;

export function latencyPlots({ distributions = {}, slo = {} }: UnderstudyPart): Plot[] {
  return CDFS.flatMap(([metric, beside, color]) => {
    const own = distributions[metric];
    if (!own?.histogram || own.count === 0) return [];
    const other = beside === "" ? undefined : distributions[beside];
    const differs = other?.histogram && other.count > 0 && !isAlike(own, other);
    const kind = own.count < SMOOTH_FROM ? "step" : "line";
    const lines: PlotLine[] = [{ label: labelOf(metric), color, kind }];
    if (differs) lines.push({ label: labelOf(beside), color: "grey", kind, dash: true });
    const limit = slo[metric];
    const marks: Mark[] = isNumber(limit) ? [{ axis: "x", at: limit, label: `SLO ${limit} ms`, color: "red" }] : [];
    const note = `Share of ${metric === "itl" || metric === "icl" ? "gaps" : "requests"} at or below${
      isNumber(limit) ? `; ${percentBelow(own.histogram, limit)} within the SLO` : ""
    }. n = ${own.count.toLocaleString("en-US")}`;
    return [cdf(`cdf-${metric}`, labelOf(metric), note, lines, differs ? [own, other] : [own], marks)];
  });
}

function percentBelow({ bounds, counts }: Histogram, limit: number): string {
  const all = counts.reduce((sum, count) => sum + count, 0);
  const below = counts.reduce((sum, count, i) => (bounds[i]! <= limit ? sum + count : sum), 0);
  return `${(Math.floor((below / all) * 1000) / 10).toFixed(1)} %`;
}

/** Cumulative shares of one or more distributions over the same axis; a share of `tails` on each side is not drawn. */
function cdf(
  id: string,
  title: string,
  note: string,
  lines: readonly PlotLine[],
  of: readonly Distribution[],
  marks: readonly Mark[],
  tails = 0,
): Plot {
  const everyone = [...new Set(of.flatMap(({ histogram }) => histogram!.bounds))].filter(isNumber);
  const [least, most] = [
    Math.min(...of.map(({ histogram }) => quantile(histogram!, tails))),
    Math.max(...of.map(({ histogram }) => quantile(histogram!, 1 - tails))),
  ];
  const all = everyone.filter((bound) => bound >= least && bound <= most).sort((a, b) => a - b);
  const positive = all.filter((bound) => bound > 0.01);
  const log = all[0]! >= 0 && positive.length > 1 && positive.at(-1)! > LOG_FROM * positive[0]!;
  const shown = log ? positive : all;
  // A single value is a step from 0, or to it.
  const wide = shown.length > 1 ? shown : [0, ...shown].sort((a, b) => a - b);
  const some = evenly(wide.length, LINE_POINTS).map((at) => wide[at]!);
  const isApart = (bound: number, before = 0) => before > 0 && bound > GAP * before;
  const bounds = some.flatMap((bound, i) => (isApart(bound, some[i - 1]) ? [bound / 1.001, bound] : [bound]));
  const ends = bounds.at(-1)!;
  // A limit beyond all values belongs into the picture, if it is not far beyond.
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

/** The first bound that so large a share of the values is not above. */
function quantile({ bounds, counts }: Histogram, share: number): number {
  const wanted = share * counts.reduce((sum, count) => sum + count, 0);
  let [below, at] = [counts[0]!, 0];
  while (below < wanted && at + 1 < counts.length) below += counts[++at]!;
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
 * Plots TTFT by the length of the prompt, or by the time of sending if all prompts are about as long. Answers without tokens
 * are plotted with the time of the whole answer.
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
    note: `A dot is a request: ${shareOf(chosen.length, good.length, "requests")} with an answer.${about}`,
    x: { label: isAsLong ? "seconds" : "input tokens" },
    y: { label: "ms", from: 0 },
    lines: [{ label, color: "blue", kind: "dots" }],
    data: [chosen.map((at) => x(good[at]!)), chosen.map((at) => drawable(latencies[at]))],
    marks: isNumber(limit) ? [{ axis: "y", at: limit, label: `SLO ${limit} ms`, color: "red" }] : [],
  };
}

export function truthPlot({ truth }: UnderstudyPart): Plot | null {
  const colors: readonly Color[] = ["blue", "purple", "green", "orange", "grey"];
  const known = Object.entries(truth?.errors ?? {})
    .filter(([, { histogram, count }]) => histogram && count > 0)
    .slice(0, colors.length);
  if (known.length === 0) return null;
  const lines = known.map(([metric], i): PlotLine => ({ label: labelOf(metric), color: colors[i]!, kind: "step" }));
  const of = known.map(([, distribution]) => distribution);
  return cdf(
    "truth",
    "Measured minus true",
    `How far the client's figures are from what the server says each request experienced. ${100 - 200 * TAILS} % are drawn, all are in the table.`,
    lines,
    of,
    [{ axis: "x", at: 0, label: "exact", color: "grey" }],
    TAILS,
  );
}

/** Latency and throughput against the rate, or the concurrency where there is none. */
export function sweepPlots({ sweep = [], slo = {} }: UnderstudyPart): Plot[] {
  const byRate = sweep.every(({ request_rate: rate }) => isNumber(rate));
  const at = ({ request_rate: rate, concurrency }: SweepPoint) => (byRate ? rate : concurrency) ?? null;
  const points = sweep.filter((point) => isNumber(at(point))).sort((a, b) => at(a)! - at(b)!);
  if (points.length < 2) return [];
  const x = { label: byRate ? "requests/s offered" : "requests at once" };
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
  const tokens: Plot = {
    id: "sweep-tokens",
    title: "Output tokens per second",
    note: "",
    x,
    y: { label: "tokens/s", from: 0 },
    lines: [{ label: "output tokens/s", color: "blue", kind: "line" }],
    data: [xs, points.map((point) => drawable(point.output_throughput))],
    marks: [],
  };
  const goodput = points.some(({ request_goodput: good }) => isNumber(good));
  return [
    {
      id: "sweep-throughput",
      title: "Requests per second",
      note: goodput ? "Answered, and answered within the SLO." : "Answered.",
      x,
      y: { label: "requests/s", from: 0 },
      lines: [
        { label: "throughput", color: "blue", kind: "line" },
        ...(goodput ? [{ label: "goodput", color: "green", kind: "line" } as const] : []),
      ],
      data: [
        xs,
        points.map((point) => drawable(point.request_throughput)),
        ...(goodput ? [points.map((point) => drawable(point.request_goodput))] : []),
      ],
      marks: [],
    },
    ...(points.some(({ output_throughput: tokens }) => isNumber(tokens)) ? [tokens] : []),
    ...plots,
  ];
}

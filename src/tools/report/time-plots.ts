/** Makes plots over time: of the client, of sends, and of the server. */
import { drawable, isNumber } from "./numbers.ts";
import type { Mark, Plot } from "./plot.ts";
import type { Moment, ReportRecord, ServerMoment, UnderstudyPart } from "./result.ts";
import { DOTS, evenly, evenlyWithGreatest, LINE_POINTS, shareOf } from "./sample.ts";

const X = { label: "seconds" };

/** Prepares moments of a run for plots. Null if there are too few for a line. */
function prepare<M extends { readonly t: number }>(all: readonly M[], marks: readonly Mark[] = []) {
  const moments = evenly(all.length, LINE_POINTS).map((at) => all[at]!);
  if (moments.length < 2) return null;
  const xs = moments.map(({ t }) => drawable(t));
  return {
    moments,
    has: (name: keyof M) => moments.some((moment) => isNumber(moment[name])),
    gauge: (name: keyof M) => moments.map((moment) => drawable(moment[name] as number | null | undefined)),
    plot: (definition: Omit<Plot, "x" | "marks">): Plot => ({
      ...definition,
      x: X,
      data: [xs, ...definition.data],
      marks,
    }),
  };
}

const isThere = (plot: Plot | false): plot is Plot => plot !== false;

export function runPlots({ timeseries = [], steady }: UnderstudyPart): Plot[] {
  const marks: Mark[] = steady
    ? [{ axis: "x", at: steady.from_s, to: steady.to_s, label: "steady", color: "green" }]
    : [];
  const prepared = prepare<Moment>(timeseries, marks);
  if (prepared === null) return [];
  const { moments, has, gauge, plot } = prepared;
  return [
    has("output_tokens") &&
      plot({
        id: "throughput",
        title: "Throughput",
        note: "Output tokens per second.",
        y: { label: "tokens/s", from: 0 },
        lines: [{ label: "output tokens/s", color: "blue", kind: "area" }],
        data: [rates(moments, ({ output_tokens: tokens }) => tokens)],
      }),
    has("running") &&
      plot({
        id: "concurrency",
        title: "Concurrency",
        note: "Requests in progress.",
        y: { label: "requests", from: 0, whole: true },
        lines: [{ label: "in progress", color: "green", kind: "area" }],
        data: [gauge("running")],
      }),
    (has("sent") || has("completed")) &&
      plot({
        id: "requests",
        title: "Requests per second",
        note: "Sent and ended.",
        y: { label: "requests/s", from: 0 },
        lines: [
          { label: "sent", color: "grey", kind: "line", dash: true },
          { label: "ended", color: "blue", kind: "line" },
        ],
        data: [rates(moments, ({ sent }) => sent), rates(moments, ({ completed }) => completed)],
      }),
    (has("ttft_p50") || has("itl_p50")) &&
      plot({
        id: "latency-time",
        title: "Latency over time",
        note: "Medians since the previous point.",
        y: { label: "ms", log: true },
        lines: [
          { label: "TTFT p50", color: "blue", kind: "line" },
          { label: "ITL p50", color: "purple", kind: "line" },
        ],
        data: [positive(gauge("ttft_p50")), positive(gauge("itl_p50"))],
      }),
    has("e2el_p50") &&
      plot({
        id: "latency-time",
        title: "Latency over time",
        note: "Medians of the answers since the previous point.",
        y: { label: "ms", log: true },
        lines: [{ label: "E2E p50", color: "green", kind: "line" }],
        data: [positive(gauge("e2el_p50"))],
      }),
  ].filter(isThere);
}

/** Replaces values that a logarithmic axis cannot show by null. */
const positive = (values: readonly (number | null)[]) =>
  values.map((value) => (value !== null && value > 0 ? value : null));

/** Returns the growth of a counter per second. */
function rates<T extends { readonly t: number }>(
  moments: readonly T[],
  count: (moment: T) => number | null | undefined,
): (number | null)[] {
  return moments.map((moment, i) => {
    const before = moments[i - 1];
    const [now, then] = [count(moment), before ? count(before) : 0];
    const seconds = moment.t - (before?.t ?? 0);
    return isNumber(now) && isNumber(then) && seconds > 0 ? drawable(Math.max(0, now - then) / seconds) : null;
  });
}

/** Plots intended and actual send times. Empty if there are no intended times. */
export function arrivalPlots(records: readonly ReportRecord[]): Plot[] {
  const sent = records.filter(({ intendedUs, sendUs }) => isNumber(intendedUs) && isNumber(sendUs));
  if (sent.length < 2) return [];
  const intended = Float64Array.from(sent, ({ intendedUs }) => intendedUs / 1e6).sort();
  const sends = Float64Array.from(sent, ({ sendUs }) => sendUs / 1e6).sort();
  const [from, to] = [Math.min(intended[0]!, sends[0]!), Math.max(intended.at(-1)!, sends.at(-1)!)];
  const xs = evenly(LINE_POINTS, LINE_POINTS).map((at) => from + ((to - from) * at) / (LINE_POINTS - 1));
  xs[xs.length - 1] = to;
  const rowOf = sent.toSorted((a, b) => a.intendedUs - b.intendedUs);
  const delays = rowOf.map(({ intendedUs, sendUs }) => (sendUs - intendedUs) / 1000);
  const chosen = evenlyWithGreatest(delays, DOTS);
  return [
    {
      id: "arrivals",
      title: "Intended against sent",
      note: "Requests so far. Where the lines part, the client was behind its schedule.",
      x: X,
      y: { label: "requests", from: 0, whole: true },
      lines: [
        { label: "intended", color: "grey", kind: "step", dash: true },
        { label: "sent", color: "blue", kind: "step" },
      ],
      data: [xs.map(drawable), counted(intended, xs), counted(sends, xs)],
      marks: [],
    },
    {
      id: "delay",
      title: "Lateness of sends",
      note: `Send minus intended time: ${shareOf(chosen.length, delays.length, "requests")}.`,
      x: X,
      y: { label: "ms", from: Math.min(0, ...chosen.map((at) => delays[at]!)) },
      lines: [{ label: "send delay", color: "orange", kind: "dots" }],
      data: [chosen.map((at) => drawable(rowOf[at]!.intendedUs / 1e6)), chosen.map((at) => drawable(delays[at]))],
      marks: [],
    },
  ];
}

/** Returns for each x the number of times that are not later. Both lists rise. */
function counted(times: Float64Array, xs: readonly number[]): number[] {
  let count = 0;
  return xs.map((x) => {
    while (count < times.length && times[count]! <= x) count++;
    return count;
  });
}

export function serverPlots({ server_metrics: server }: UnderstudyPart): Plot[] {
  const prepared = prepare<ServerMoment>(server?.timeseries ?? []);
  if (prepared === null) return [];
  const { has, gauge, plot } = prepared;
  return [
    (has("running") || has("waiting")) &&
      plot({
        id: "server-queue",
        title: "Running and waiting",
        note: "Requests in the server's batch and in its queue.",
        y: { label: "requests", from: 0, whole: true },
        lines: [
          { label: "running", color: "green", kind: "area" },
          { label: "waiting", color: "orange", kind: "area" },
        ],
        data: [gauge("running"), gauge("waiting")],
      }),
    has("kv_usage") &&
      plot({
        id: "server-kv",
        title: "KV cache in use",
        note: "Share of the server's KV blocks.",
        y: { label: "", percent: true, from: 0, to: 1 },
        lines: [{ label: "KV usage", color: "purple", kind: "area" }],
        data: [gauge("kv_usage")],
      }),
    has("preemptions") &&
      plot({
        id: "server-preemptions",
        title: "Preemptions",
        note: "Since the start of the run.",
        y: { label: "preemptions", from: 0, whole: true },
        lines: [{ label: "preemptions", color: "red", kind: "step" }],
        data: [gauge("preemptions")],
      }),
  ].filter(isThere);
}

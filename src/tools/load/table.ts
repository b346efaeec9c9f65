/** Prints the tables after a run: vLLM's labels in vLLM's order, then our own rows. */
import type { Distribution, Result, UnderstudyPart } from "../report/result.ts";
import type { Settings } from "./settings.ts";
import type { FlatMetric } from "./vllm-keys.ts";

const WIDTH = 50;
const LABEL = 40;

const NAMES: Readonly<Record<string, readonly [short: string, heading: string]>> = {
  ttft: ["TTFT", "Time to First Token"],
  tpot: ["TPOT", "Time per Output Token (excl. 1st token)"],
  itl: ["ITL", "Inter-token Latency"],
  e2el: ["E2EL", "End-to-end Latency"],
  client_queue_time: ["Client Queue Time", "Client-side Queueing"],
  e2el_including_client_queue: ["E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"],
};

/** Prints vLLM's table. Labels and format are from vllm 0.33.0, `benchmarks/serve.py`, because scripts search for them. */
export function vllmTable(settings: Settings, result: Result): string[] {
  const value = (key: string) => result[key] as number;
  const rate = result.request_rate;
  // vLLM omits these rows for its pooling backends.
  const tokens = (lines: () => string[]) => ("total_output_tokens" in result ? lines() : []);
  const lines = [
    centred(" Serving Benchmark Result ", "="),
    whole("Successful requests:", value("completed")),
    whole("Failed requests:", value("failed")),
    ...(settings.concurrency === null ? [] : [whole("Maximum request concurrency:", settings.concurrency)]),
    ...(typeof rate === "number" ? [decimal("Request rate configured (RPS):", rate)] : []),
    decimal("Benchmark duration (s):", value("duration")),
    whole("Total input tokens:", value("total_input_tokens")),
    ...tokens(() => [whole("Total generated tokens:", value("total_output_tokens"))]),
    decimal("Request throughput (req/s):", value("request_throughput")),
    ...(settings.slo === null ? [] : [decimal("Request goodput (req/s):", value("request_goodput"))]),
    ...tokens(() => [
      decimal("Output token throughput (tok/s):", value("output_throughput")),
      decimal("Peak output token throughput (tok/s):", value("max_output_tokens_per_s")),
      decimal("Peak concurrent requests:", value("max_concurrent_requests")),
    ]),
    decimal("Total token throughput (tok/s):", value("total_token_throughput")),
  ];
  for (const [metric, [short, heading]] of Object.entries(NAMES)) {
    if (!(`mean_${metric}_ms` in result)) continue;
    lines.push(
      centred(heading, "-"),
      decimal(`Mean ${short} (ms):`, value(`mean_${metric}_ms`)),
      decimal(`Median ${short} (ms):`, value(`median_${metric}_ms`)),
      ...settings.percentiles.map((q) => decimal(`P${q} ${short} (ms):`, value(`p${q}_${metric}_ms`))),
    );
  }
  return [...lines, "=".repeat(WIDTH)];
}

const whole = (label: string, value: number): string => `${label.padEnd(LABEL)} ${String(value).padEnd(10)}`;
const decimal = (label: string, value: number): string => `${label.padEnd(LABEL)} ${value.toFixed(2).padEnd(10)}`;

/** Centres a text like Python, with the extra character on the right. */
function centred(text: string, fill: string): string {
  const left = Math.floor((WIDTH - text.length) / 2);
  return text.padStart(text.length + Math.max(0, left), fill).padEnd(WIDTH, fill);
}

const ROWS: readonly (readonly [label: string, metric: string])[] = [
  ["TTFT from send", "ttft"],
  ["TTFT from intended time", "ttft_intended"],
  ["ITL per token", "itl"],
  ["ICL (between chunks)", "icl"],
  ["TPOT", "tpot"],
  ["E2EL from send", "e2el"],
  ["E2EL from intended time", "e2el_intended"],
];

/** Prints our own metrics (`understudy` in the JSON), with the steady window next to the whole run. */
export function ourTable(settings: Settings, { understudy }: Result, metrics: readonly FlatMetric[]): string[] {
  const part = understudy as UnderstudyPart & Record<string, Record<string, number> | undefined>;
  const { distributions = {}, steady, sched_delay_ms: delay } = understudy;
  const shownMetrics = ROWS.filter(
    ([, metric]) =>
      metric in distributions &&
      metrics.some((name) => metric === name || metric.startsWith(`${name}_`) || (name === "itl" && metric === "icl")),
  );
  const quantiles = [50, 99].filter((q) => settings.percentiles.includes(q));
  const headings = (of: string) => ["mean", ...quantiles.map((q) => `p${q}`)].map((name) => `${of}${name}`);
  const rows = [
    ["understudy, ms", ...headings(""), ...(steady ? headings("steady ") : [])],
    ...shownMetrics.map(([label, metric]) => [
      label,
      ...cells(distributions[metric], quantiles),
      ...(steady ? cells(steady.distributions[metric], quantiles) : []),
    ]),
    ["sched delay", ...cells(delay, quantiles)],
  ];
  const { counts = {}, throughput = {}, errors = {} } = part;
  const { adj = {}, goodput } = understudy as { adj?: AdjPercentiles; goodput?: number };
  const sums: readonly (readonly [label: string, text: string | null])[] = [
    ["requests", summary(counts)],
    ["not complete", listed(errors, ([kind, n]) => `${n} ${kind}`) || null],
    ...Object.entries(adj).map(([metric, percentiles]) => {
      const values = listed(percentiles, ([q, ms]) => `${q} ${ms === null ? "inf" : ms.toFixed(2)}`);
      return [`adj ${metric}, ms`, `${values} (failed requests as infinitely slow)`] as const;
    }),
    ["output", tokenRate(throughput.output_tokens_per_s, "chunk")],
    ["input", tokenRate(throughput.input_tokens_per_s, "answer")],
    ["per user", perUser(understudy.tokens_per_s_per_user)],
    ["retries", retriesText(understudy.retries)],
    ["steady", steady ? steadyText(steady) : null],
    ["goodput", goodput === undefined ? null : goodputText(goodput, understudy)],
  ];
  return [
    ...columns(rows),
    "",
    ...sums.flatMap(([label, text]) => (text === null ? [] : [`${label.padEnd(14)} ${text}`])),
  ];
}

type AdjPercentiles = Readonly<Record<string, Readonly<Record<string, number | null>>>>;

function listed<T>(values: Readonly<Record<string, T>>, textOf: (entry: [name: string, value: T]) => string): string {
  return Object.entries(values).map(textOf).join(", ");
}

function tokenRate(perSecond: number | null | undefined, last: string): string | null {
  if (typeof perSecond !== "number") return null;
  return `${perSecond.toFixed(1)} tokens/s from the first send to the last ${last}`;
}

function perUser(speeds: Distribution | undefined): string | null {
  if (!speeds || speeds.count === 0) return null;
  const values = (["mean", "p50", "p10", "p1"] as const).flatMap((name) => {
    const value = speeds[name];
    return typeof value === "number" ? [`${name} ${value.toFixed(1)}`] : [];
  });
  return `${values.join(", ")} tokens/s`;
}

function retriesText(retries: UnderstudyPart["retries"]): string {
  if (!retries || retries.limit === 0) return "0 (no --retries: no request was sent again)";
  const { count, requests, per_request: share } = retries;
  return `${count}, of ${requests} requests: ${share.toFixed(3)} per request`;
}

function steadyText(steady: NonNullable<UnderstudyPart["steady"]>): string {
  const window = steady as typeof steady & { request_throughput: number; output_throughput?: number };
  const span = `${steady.from_s.toFixed(2)} s to ${steady.to_s.toFixed(2)} s`;
  const tokens = window.output_throughput === undefined ? "" : `, ${window.output_throughput.toFixed(1)} tokens/s`;
  return `${span}: ${window.request_throughput.toFixed(2)} requests/s${tokens}`;
}

function goodputText(goodput: number, understudy: UnderstudyPart): string {
  const { attainment } = understudy as { attainment?: number };
  const limits = listed(understudy.slo ?? {}, ([metric, limit]) => `${metric} <= ${limit} ms`);
  return `${goodput.toFixed(2)} requests/s, ${(attainment! * 100).toFixed(1)} % of all (${limits})`;
}

function summary(counts: Readonly<Record<string, number>>): string {
  const parts = [`${counts.completed} of ${counts.sent} complete`];
  for (const kind of ["failed", "incomplete", "unfinished", "disturbed"])
    if (counts[kind]) parts.push(`${counts[kind]} ${kind}`);
  if (counts.warm_up) parts.push(`${counts.warm_up} for warm-up before`);
  if (counts.cached_tokens) parts.push(`${counts.cached_tokens} of ${counts.input_tokens} prompt tokens from a cache`);
  return parts.join(", ");
}

function cells(distribution: Distribution | undefined, quantiles: readonly number[]): string[] {
  const values = [distribution?.mean, ...quantiles.map((q) => distribution?.[`p${q}`])];
  return values.map((value) => (typeof value === "number" ? value.toFixed(2) : "-"));
}

export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join("  ")
      .trimEnd(),
  );
}

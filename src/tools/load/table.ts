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
  const lines = columns(rows);
  const { counts = {}, throughput = {}, errors = {} } = part;
  lines.push("", line("requests", summary(counts)));
  if (Object.keys(errors).length > 0) {
    lines.push(
      line(
        "not complete",
        Object.entries(errors)
          .map(([kind, n]) => `${n} ${kind}`)
          .join(", "),
      ),
    );
  }
  const { adj = {} } = understudy as { adj?: Record<string, Record<string, number | null>> };
  for (const [metric, percentiles] of Object.entries(adj)) {
    const values = Object.entries(percentiles).map(([q, ms]) => `${q} ${ms === null ? "inf" : ms.toFixed(2)}`);
    lines.push(line(`adj ${metric}, ms`, `${values.join(", ")} (failed requests as infinitely slow)`));
  }
  if (typeof throughput.output_tokens_per_s === "number") {
    lines.push(
      line("output", `${throughput.output_tokens_per_s.toFixed(1)} tokens/s from the first send to the last chunk`),
    );
  }
  if (typeof throughput.input_tokens_per_s === "number") {
    lines.push(
      line("input", `${throughput.input_tokens_per_s.toFixed(1)} tokens/s from the first send to the last answer`),
    );
  }
  const { retries, tokens_per_s_per_user: perUser } = understudy;
  if (perUser && perUser.count > 0) {
    const values = ["mean", "p50", "p10", "p1"]
      .map((name) => [name, perUser[name as "mean"]] as const)
      .filter(([, value]) => typeof value === "number");
    lines.push(
      line("per user", `${values.map(([name, value]) => `${name} ${value!.toFixed(1)}`).join(", ")} tokens/s`),
    );
  }
  if (retries && retries.limit > 0) {
    const { count, requests, per_request: share } = retries;
    lines.push(line("retries", `${count}, of ${requests} requests: ${share.toFixed(3)} per request`));
  } else lines.push(line("retries", "0 (no --retries: no request was sent again)"));
  if (steady) {
    const window = steady as typeof steady & { request_throughput: number; output_throughput?: number };
    const span = `${steady.from_s.toFixed(2)} s to ${steady.to_s.toFixed(2)} s`;
    const tokens = window.output_throughput === undefined ? "" : `, ${window.output_throughput.toFixed(1)} tokens/s`;
    const speeds = `${window.request_throughput.toFixed(2)} requests/s${tokens}`;
    lines.push(line("steady", `${span}: ${speeds}`));
  }
  const { goodput, attainment } = understudy as { goodput?: number; attainment?: number };
  if (goodput !== undefined) {
    const limits = Object.entries(understudy.slo ?? {}).map(([metric, limit]) => `${metric} <= ${limit} ms`);
    lines.push(
      line(
        "goodput",
        `${goodput.toFixed(2)} requests/s, ${(attainment! * 100).toFixed(1)} % of all (${limits.join(", ")})`,
      ),
    );
  }
  return lines;
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

const line = (label: string, text: string): string => `${label.padEnd(14)} ${text}`;

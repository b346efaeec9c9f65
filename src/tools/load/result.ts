/** Makes the result of a run as one JSON object: vLLM's flat keys, and the object `understudy` with our own keys. */
import { cpus, hostname, release } from "node:os";
import { percentile } from "../report/distribution.ts";
import type { Distribution, Moment, Result, SweepPoint, UnderstudyPart } from "../report/result.ts";
import { definitionsFor } from "./definitions.ts";
import {
  adjusted,
  distributions,
  errorsByClass,
  greatest,
  isFailed,
  isGoodAnswer,
  isIncomplete,
  least,
  meets,
  retriesOf,
  schedDelay,
  steadyWindow,
  tokensPerUser,
  tokensWithin,
} from "./measures.ts";
import { generates } from "./requests/dialects.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { Settings } from "./settings.ts";
import { flatKeys } from "./vllm-keys.ts";

export const SCHEMA_VERSION = 1;

/** Facts about a run in addition to its records. */
export interface RunFacts {
  readonly model: string;
  /** Seconds from the first send to the end of the last request. */
  readonly durationS: number;
  readonly interrupted: boolean;
  /**
   * User and system time during the measurement. `cpuUs`: of all threads. `cpuShare`: of the event loop's thread, as a share
   * of one core.
   */
  readonly cpuUs: number;
  readonly cpuShare: number;
  /** Seconds of the measurement. */
  readonly measuredS: number;
  readonly connectionsOpened: number;
  /** Number of requests that were sent again, because the server was closing an idle connection. */
  readonly resent: number;
  readonly warmUpRequests: number;
  readonly serverMetrics: UnderstudyPart["server_metrics"];
  readonly truth: UnderstudyPart["truth"];
  readonly warnings: readonly string[];
  /** Distributions of gaps if there were too many to keep. Null if the records have all gaps. */
  readonly gaps: { readonly itl: Distribution; readonly icl: Distribution } | null;
  readonly startEpochS: number;
}

/** Prints a local time as other tools do: 20261122-013015. */
export function stamp(epochS: number): string {
  const at = new Date(epochS * 1000);
  const twoDigits = (value: number) => String(value).padStart(2, "0");
  const date = `${at.getFullYear()}${twoDigits(at.getMonth() + 1)}${twoDigits(at.getDate())}`;
  return `${date}-${twoDigits(at.getHours())}${twoDigits(at.getMinutes())}${twoDigits(at.getSeconds())}`;
}

export function resultOf(settings: Settings, records: readonly RequestRecord[], facts: RunFacts): Result {
  const { loop, percentiles, slo } = settings;
  const rate = loop.kind === "open" ? loop.rate : Number.POSITIVE_INFINITY;
  const ramp = loop.kind === "open" ? loop.ramp : null;
  const flat = {
    date: stamp(facts.startEpochS),
    endpoint_type: settings.dialect,
    backend: settings.dialect,
    label: settings.label,
    model_id: facts.model,
    tokenizer_id: facts.model,
    num_prompts: records.length,
    ...settings.metadata,
    request_rate: Number.isFinite(rate) ? rate : "inf",
    burstiness: loop.kind === "open" ? burstinessOf(loop) : 1,
    max_concurrency: settings.concurrency,
    ...(ramp && { ramp_up_strategy: ramp.strategy, ramp_up_start_rps: ramp.startRps, ramp_up_end_rps: ramp.endRps }),
    ...flatKeys(records, { ...settings, rate, durationS: facts.durationS }),
  };
  const hasTokens = generates(settings.dialect);
  const all = { ...latencies(records, settings), ...(hasTokens ? facts.gaps : null) };
  const understudy: UnderstudyPart & Record<string, unknown> = {
    schema_version: SCHEMA_VERSION,
    definitions: definitionsFor(settings.dialect),
    command: settings.command,
    versions: { understudy: settings.version, bun: Bun.version },
    host: { name: hostname(), cpu: cpus()[0]?.model ?? "unknown", cores: cpus().length, kernel: release() },
    metadata: settings.metadata,
    arrivals: arrivalsOf(settings),
    partial: facts.interrupted,
    warnings: facts.warnings,
    counts: counts(records, facts),
    errors: errorsByClass(records) as Record<string, number>,
    retries: { limit: settings.retries, ...retriesOf(records) },
    ...(slo && { slo, ...goodput(settings, records, facts.durationS) }),
    throughput: throughput(records, hasTokens),
    ...(hasTokens && { tokens_per_s_per_user: tokensPerUser(records, percentiles) }),
    sched_delay_ms: schedDelay(records, percentiles),
    distributions: all,
    adj: withoutTokenMetrics(adjusted(records, percentiles), settings),
    steady: steady(settings, records),
    timeseries: timeseries(records, hasTokens),
    server_metrics: facts.serverMetrics ?? null,
    truth: facts.truth ?? null,
    client: {
      cpu_s: facts.cpuUs / 1e6,
      cpu_share: facts.cpuShare,
      connections_opened: facts.connectionsOpened,
      resent: facts.resent,
    },
  };
  return { ...flat, understudy };
}

/** Returns the point of a sweep for one result. */
export function sweepPoint(settings: Settings, result: Result): SweepPoint {
  const { request_throughput: requests, output_throughput: tokens, understudy } = result;
  const { goodput: good, attainment } = understudy as { goodput?: number; attainment?: number };
  return {
    request_rate: settings.loop.kind === "open" ? settings.loop.rate : null,
    concurrency: settings.concurrency,
    request_throughput: requests as number,
    ...(typeof tokens === "number" && { output_throughput: tokens }),
    request_goodput: good ?? null,
    attainment: attainment ?? null,
    distributions: understudy.distributions ?? {},
  };
}

/** Matches the latencies that answers without tokens have. */
const WHOLE_METRICS = /^e2el/;

/** Leaves out the latencies that answers without tokens do not have. */
function withoutTokenMetrics<T>(
  metrics: Readonly<Record<string, T>>,
  { dialect }: Settings,
): Readonly<Record<string, T>> {
  if (generates(dialect)) return metrics;
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => WHOLE_METRICS.test(name)));
}

const latencies = (
  records: readonly RequestRecord[],
  settings: Settings,
): NonNullable<UnderstudyPart["distributions"]> =>
  withoutTokenMetrics(distributions(records, settings.percentiles), settings);

function burstinessOf({ pattern, burstiness }: { readonly pattern: string; readonly burstiness: number }): number {
  return pattern === "gamma" ? burstiness : 1;
}

function arrivalsOf({ loop, seed, concurrency }: Settings): Record<string, unknown> {
  if (loop.kind === "closed") return { pattern: "closed", concurrency, seed };
  if (loop.kind === "schedule") return { pattern: "schedule", speedup: loop.speedup, concurrency, seed };
  const { pattern, rate, ramp, rescale } = loop;
  return {
    pattern,
    rate: Number.isFinite(rate) ? rate : "inf",
    burstiness: burstinessOf(loop),
    ramp,
    rescaled: rescale,
    concurrency,
    seed,
  };
}

function counts(records: readonly RequestRecord[], facts: RunFacts): Record<string, number> {
  const tokens = (of: readonly RequestRecord[]) => of.reduce((sum, r) => sum + r.outputTokens, 0);
  const good = records.filter(isGoodAnswer);
  return {
    sent: records.length,
    completed: good.length,
    failed: records.filter(isFailed).length,
    incomplete: records.filter(isIncomplete).length,
    unfinished: records.filter((r) => r.failure?.kind === "unfinished").length,
    disturbed: records.filter((r) => r.disturbed !== null).length,
    warm_up: facts.warmUpRequests,
    input_tokens: good.reduce((sum, r) => sum + r.inputTokens, 0),
    cached_tokens: good.reduce((sum, r) => sum + r.cachedTokens, 0),
    output_tokens: tokens(good),
    output_tokens_of_others: tokens(records.filter((r) => !isGoodAnswer(r))),
  };
}

function goodput({ slo }: Settings, records: readonly RequestRecord[], durationS: number): Record<string, number> {
  const judged = records.filter((r) => r.disturbed === null && r.failure?.kind !== "unfinished");
  const good = judged.filter((r) => meets(r, slo!)).length;
  return { goodput: good / durationS, attainment: judged.length > 0 ? good / judged.length : 0 };
}

function throughput(records: readonly RequestRecord[], hasTokens: boolean): Record<string, number | null> {
  const good = records.filter(isGoodAnswer);
  const spanS = (greatest(good, (r) => r.lastUs) - least(records, (r) => r.sendUs)) / 1e6;
  const per = (value: number) => (spanS > 0 ? value / spanS : null);
  const tokens = per(good.reduce((sum, r) => sum + (hasTokens ? r.outputTokens : r.inputTokens), 0));
  return {
    ...(hasTokens ? { output_tokens_per_s: tokens } : { input_tokens_per_s: tokens }),
    requests_per_s: per(good.length),
  };
}

function steady(settings: Settings, records: readonly RequestRecord[]): UnderstudyPart["steady"] {
  const concurrency = settings.loop.kind === "closed" ? settings.concurrency! : Number.POSITIVE_INFINITY;
  const window = steadyWindow(records, concurrency);
  if (window === null) return null;
  const within = records.filter((r) => r.sendUs >= window.fromUs && r.sendUs <= window.toUs);
  const seconds = (window.toUs - window.fromUs) / 1e6;
  const ends = records.filter((r) => isGoodAnswer(r) && r.endUs >= window.fromUs && r.endUs < window.toUs);
  const part = {
    from_s: window.fromUs / 1e6,
    to_s: window.toUs / 1e6,
    request_throughput: ends.length / seconds,
    ...(generates(settings.dialect) && {
      output_throughput: records.reduce((sum, r) => sum + tokensWithin(r, window), 0) / seconds,
    }),
    distributions: latencies(within, settings),
  };
  return part;
}

/** Maximum number of rows. Long runs have rows of several seconds. */
const ROWS_MOST = 3600;

function timeseries(records: readonly RequestRecord[], hasTokens: boolean): Moment[] {
  const endUs = greatest(records, (r) => r.endUs || 0);
  if (!(endUs > 0)) return [];
  const stepUs = Math.max(1, Math.ceil(endUs / 1e6 / ROWS_MOST)) * 1e6;
  const rows = Array.from({ length: Math.floor(endUs / stepUs) + 1 }, () => ({
    sent: 0,
    ended: 0,
    completed: 0,
    tokens: 0,
    ttfts: [] as number[],
    e2els: [] as number[],
    gaps: [] as number[],
  }));
  const row = (us: number) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(us / stepUs)))]!;
  for (const record of records) {
    const { sendUs, endUs: end, chunkUs, chunkTokens } = record;
    if (sendUs >= 0) row(sendUs).sent++;
    if (sendUs >= 0 && end >= 0) row(end).ended++;
    if (isGoodAnswer(record)) {
      row(end).completed++;
      if (hasTokens) row(record.firstUs).ttfts.push((record.firstUs - sendUs) / 1000);
      else row(end).e2els.push((record.lastUs - sendUs) / 1000);
    }
    const share = chunkUs.length > 0 ? record.outputTokens / chunkUs.length : 0;
    for (let i = 0; i < chunkUs.length; i++) {
      const at = row(chunkUs[i]!);
      at.tokens += chunkTokens[i]! || share;
      if (i > 0) at.gaps.push((chunkUs[i]! - chunkUs[i - 1]!) / 1000);
    }
  }
  const median = (values: number[]) => (values.length > 0 ? percentile(Float64Array.from(values).sort(), 50) : null);
  let [sent, ended, completed, tokens] = [0, 0, 0, 0];
  return rows.map((row, i) => {
    sent += row.sent;
    ended += row.ended;
    completed += row.completed;
    tokens += row.tokens;
    return {
      t: ((i + 1) * stepUs) / 1e6,
      running: sent - ended,
      sent,
      completed,
      ...(hasTokens
        ? { output_tokens: tokens, ttft_p50: median(row.ttfts), itl_p50: median(row.gaps) }
        : { e2el_p50: median(row.e2els) }),
    };
  });
}

/** Reads results of aiperf 0.13: `profile_export_aiperf.json` (means) and `profile_export.jsonl` (a record per request). */
import { shownJson } from "../../base/json-object.ts";
import { type AnsweredRequest, type FitRun, runOf } from "./run.ts";
import { type JsonRecord, numberIn } from "./vllm.ts";

const US: Readonly<Record<string, number>> = { ns: 0.001, us: 1, ms: 1000, sec: 1e6, s: 1e6, seconds: 1e6 };

const objectAt = (json: JsonRecord, key: string): JsonRecord | undefined =>
  typeof json[key] === "object" && json[key] !== null ? (json[key] as JsonRecord) : undefined;

/** Returns the microseconds of a metric's unit. Undefined if it is not a unit of time. */
const unitOf = ({ unit }: JsonRecord): number | undefined =>
  typeof unit === "string" && Object.hasOwn(US, unit) ? US[unit] : undefined;

/** Returns a value of a metric, in microseconds if its unit is one of time. NaN if it is missing. */
function metric(json: JsonRecord, tag: string, key: "avg" | "std" | "value"): number {
  const metricObject = objectAt(json, tag);
  const value = metricObject?.[key];
  return typeof value === "number" ? value * (unitOf(metricObject!) ?? 1) : Number.NaN;
}

export function isAiperf(json: JsonRecord): boolean {
  return objectAt(json, "time_to_first_token")?.avg !== undefined;
}

const LENGTHS = ["input_sequence_length", "output_sequence_length"];

/** Returns the run, or a text that names the missing fields. */
export function aiperfRun(json: JsonRecord, source: string): FitRun | string {
  const mean = (tag: string) => metric(json, tag, "avg");
  const means = {
    completed: mean("request_count"),
    durationUs: mean("benchmark_duration"),
    inputTokens: mean("input_sequence_length"),
    outputTokens: mean("output_sequence_length"),
    ttftUs: mean("time_to_first_token"),
    tpotUs: mean("inter_token_latency"),
  };
  const missing = Object.values(means).some((value) => !(value > 0));
  if (missing)
    return "request_count, benchmark_duration, sequence lengths, time_to_first_token and inter_token_latency";
  const [inputStd, outputStd] = LENGTHS.map((tag) => metric(json, tag, "std") || 0) as [number, number];
  return { source, format: "aiperf", concurrency: concurrencyOf(json), requests: null, ...means, inputStd, outputStd };
}

/** Finds the concurrency anywhere in the configuration. Null if there is a request rate. */
function concurrencyOf(json: JsonRecord): number | null {
  const config = shownJson(json.input_config ?? {});
  if (/"request_rate":\s*\d/.test(config)) return null;
  const [, digits] = /"concurrency":\s*(\d+)/.exec(config) ?? [];
  return digits === undefined ? null : Number(digits);
}

export function isAiperfRecord(json: JsonRecord): boolean {
  return objectAt(json, "metadata") !== undefined && objectAt(json, "metrics") !== undefined;
}

/** Returns the run, or a text that names the missing data. Skips warm-up, cancelled and failed requests. */
export function aiperfRecords(records: readonly JsonRecord[], source: string): FitRun | string {
  const requests: AnsweredRequest[] = [];
  for (const record of records) {
    const metadata = objectAt(record, "metadata")!;
    const metrics = objectAt(record, "metrics")!;
    if (metadata.benchmark_phase === "warmup" || metadata.was_cancelled === true || record.error) continue;
    const value = (tag: string) => metric(metrics, tag, "value");
    const sentUs = numberIn(metadata.request_start_ns) / 1000;
    const firstUs = sentUs + value("time_to_first_token");
    const lastUs = sentUs + value("request_latency");
    const [inputTokens, outputTokens] = [value("input_sequence_length"), value("output_sequence_length")];
    if (!(lastUs >= firstUs && inputTokens >= 1 && outputTokens >= 1)) continue;
    requests.push({
      sentUs,
      firstUs,
      lastUs,
      inputTokens,
      outputTokens,
      laterUs: later(metrics, firstUs, outputTokens),
    });
  }
  if (requests.length === 0) return "a record of an answered request with its times and lengths";
  // Records do not say how requests were sent, so a replay uses their send times.
  return runOf({ source, format: "aiperf", concurrency: null }, requests);
}

/** Returns the times of tokens after the first. Null if the chunk gaps are missing, or if chunks had several tokens. */
function later(metrics: JsonRecord, firstUs: number, outputTokens: number): number[] | null {
  const gaps = objectAt(metrics, "inter_chunk_latency");
  if (!Array.isArray(gaps?.value) || gaps.value.length !== outputTokens - 1) return null;
  const unit = unitOf(gaps) ?? 1000;
  let us = firstUs;
  return gaps.value.map((gap: unknown) => {
    us += numberIn(gap) * unit;
    return us;
  });
}

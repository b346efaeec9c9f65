/** The results of a Triton replay, as numbers for the table and `--json`. */
import { FAILURE_REASONS, type Reason, SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import type { TritonServer } from "../../../servers/triton/inference/server.ts";
import type { ModelStatistics } from "../../../servers/triton/inference/statistics.ts";
import type { TritonReplay } from "./replay.ts";

export interface TritonModelResults {
  readonly name: string;
  readonly version: number;
  readonly success: number;
  /** Number of failures by reason, without reasons that did not occur. */
  readonly failures: Readonly<Record<string, number>>;
  readonly inferences: number;
  readonly executions: number;
  /** Inferences per execution; null: no execution. */
  readonly batch: number | null;
  /** Mean time of successful requests in milliseconds; null: no successful request. */
  readonly queue_ms: number | null;
  readonly compute_ms: number | null;
  readonly cache_hits: number;
  readonly cache_misses: number;
}

export interface TritonResults {
  readonly schema: "understudy-replay-triton/1";
  readonly trace: { readonly name: string; readonly format: string };
  readonly model: string;
  readonly triton_version: string;
  readonly duration_s: number;
  readonly requests: {
    readonly arrived: number;
    readonly finished: number;
    readonly unfinished: number;
    /** Number of failed requests by error message. */
    readonly failed: Readonly<Record<string, number>>;
    readonly bad_lines: number;
  };
  readonly requests_per_s: number;
  readonly pending_peak: number;
  /** Time from arrival to last response of finished requests; null: no request finished. */
  readonly latency_ms: Readonly<Record<"mean" | "p50" | "p90" | "p99", number | null>>;
  /** The model, and the other models of an ensemble. */
  readonly models: readonly TritonModelResults[];
}

export function tritonResults(
  replay: TritonReplay,
  server: TritonServer,
  durationUs: number,
  about: Pick<TritonResults, "trace" | "model"> & { readonly badLines: number },
): TritonResults {
  const { counts, latenciesUs } = replay;
  const at = (share: number) => {
    const { length } = latenciesUs;
    return length === 0 ? null : latenciesUs[Math.max(0, Math.ceil(share * length) - 1)]! / 1000;
  };
  const sum = latenciesUs.reduce((total, us) => total + us, 0);
  return {
    schema: "understudy-replay-triton/1",
    trace: about.trace,
    model: about.model,
    triton_version: server.facts.version,
    duration_s: durationUs / 1e6,
    requests: {
      arrived: counts.arrived,
      finished: counts.finished,
      unfinished: counts.unfinished,
      failed: Object.fromEntries(counts.failed),
      bad_lines: about.badLines,
    },
    requests_per_s: durationUs > 0 ? counts.finished / (durationUs / 1e6) : 0,
    pending_peak: counts.pendingPeak,
    latency_ms: { mean: ratio(sum / 1000, latenciesUs.length), p50: at(0.5), p90: at(0.9), p99: at(0.99) },
    models: server.served.map(({ name, version, statistics }): TritonModelResults => {
      const { inferences, executions, success, spans, cacheHit, cacheMiss } = statistics;
      const us = (span: (typeof SPANS)[number]) => spans[SPANS.indexOf(span)]!;
      const computeUs = us("compute_input") + us("compute_infer") + us("compute_output");
      return {
        name,
        version,
        success: success.count,
        failures: failuresOf(statistics),
        inferences,
        executions,
        batch: ratio(inferences, executions),
        queue_ms: ratio(us("queue") / 1000, success.count),
        compute_ms: ratio(computeUs / 1000, success.count),
        cache_hits: cacheHit.count,
        cache_misses: cacheMiss.count,
      };
    }),
  };
}

/** Counts failures by reason. Failures that instances on GPUs reported are kept separately and must be added. */
function failuresOf({ reporter, onGpus }: ModelStatistics): Readonly<Record<string, number>> {
  const all = [reporter, ...onGpus.values()];
  const count = (reason: Reason) => all.reduce((sum, { failures }) => sum + failures[reason], 0);
  return Object.fromEntries(
    FAILURE_REASONS.map((reason) => [reason, count(reason)] as const).filter(([, of]) => of > 0),
  );
}

const ratio = (of: number, by: number): number | null => (by === 0 ? null : of / by);

/** Formats the results as a table. `wallUs`: real time of the replay in microseconds, which the results do not contain. */
export function tritonTable(results: TritonResults, wallUs: number): string {
  const { requests, latency_ms: latency } = results;
  const failed = Object.entries(requests.failed).map(([why, count]) => `  ${whole(count)} failed: ${why.trim()}`);
  const width = Math.max(5, ...results.models.map(({ name }) => name.length)) + 2;
  const row = (name: string, cells: readonly string[]) =>
    name.padEnd(width) + cells.map((cell) => cell.padStart(12)).join("");
  return [
    `${results.trace.name} (${results.trace.format}) to ${results.model}, Triton ${results.triton_version}`,
    "",
    row("", ["mean", "p50", "p90", "p99"]),
    row("ms", [latency.mean, latency.p50, latency.p90, latency.p99].map(fine)),
    "",
    row("model", ["requests", "inferences", "executions", "batch", "queue, ms", "compute, ms"]),
    ...results.models.map((model) =>
      row(model.name, [
        ...[model.success, model.inferences, model.executions].map(whole),
        ...[model.batch, model.queue_ms, model.compute_ms].map(fine),
      ]),
    ),
    "",
    `requests    ${whole(requests.finished)} of ${whole(requests.arrived)} finished${requests.unfinished > 0 ? `, ${whole(requests.unfinished)} unfinished` : ""}${requests.bad_lines > 0 ? `, ${whole(requests.bad_lines)} bad lines` : ""}`,
    ...failed,
    `throughput  ${fine(results.requests_per_s)} requests/s`,
    `pending     ${whole(results.pending_peak)} at most`,
    `simulated   ${fine(results.duration_s)} s in ${fine(wallUs / 1e6)} s of wall time`,
  ].join("\n");
}

const whole = (value: number) => value.toLocaleString("en-US");
const fine = (value: number | null) =>
  value === null ? "-" : value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

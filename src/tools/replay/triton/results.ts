/** The results of a Triton replay, as numbers for the table and `--json`. */

import { FAILURE_REASONS, type Reason, SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import type { TritonServer } from "../../../servers/triton/inference/server.ts";
import type { ModelStatistics } from "../../../servers/triton/inference/statistics.ts";
import { decimal, grouped } from "../table.ts";
import type { TritonReplay } from "./replay.ts";

export type TritonResults = ReturnType<typeof tritonResults>;

export function tritonResults(
  replay: TritonReplay,
  server: TritonServer,
  durationUs: number,
  about: {
    readonly trace: { readonly name: string; readonly format: string };
    readonly model: string;
    readonly badLines: number;
  },
) {
  const { counts, latenciesUs } = replay;
  const at = (share: number) => {
    const { length } = latenciesUs;
    return length === 0 ? null : latenciesUs[Math.max(0, Math.ceil(share * length) - 1)]! / 1000;
  };
  const sum = latenciesUs.reduce((total, us) => total + us, 0);
  return {
    schema: "understudy-replay-triton/1" as const,
    trace: about.trace,
    model: about.model,
    triton_version: server.facts.version,
    duration_s: durationUs / 1e6,
    requests: {
      arrived: counts.arrived,
      finished: counts.finished,
      unfinished: counts.unfinished,
      /** Number of failed requests by error message. */
      failed: Object.fromEntries(counts.failed),
      bad_lines: about.badLines,
    },
    requests_per_s: durationUs > 0 ? counts.finished / (durationUs / 1e6) : 0,
    pending_peak: counts.pendingPeak,
    /** Time from arrival to last response of finished requests; null: no request finished. */
    latency_ms: { mean: ratio(sum / 1000, latenciesUs.length), p50: at(0.5), p90: at(0.9), p99: at(0.99) },
    /** The model, and the other models of an ensemble. */
    models: server.served.map(({ name, version, statistics }) => {
      const { inferences, executions, success, spans, cacheHit, cacheMiss } = statistics;
      const us = (span: (typeof SPANS)[number]) => spans[SPANS.indexOf(span)]!;
      const computeUs = us("compute_input") + us("compute_infer") + us("compute_output");
      return {
        name,
        version,
        success: success.count,
        /** Number of failures by reason, without reasons that did not occur. */
        failures: failuresOf(statistics),
        inferences,
        executions,
        /** Inferences per execution; null: no execution. */
        batch: ratio(inferences, executions),
        /** Mean time of successful requests in milliseconds; null: no successful request. */
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
  const failed = Object.entries(requests.failed).map(([why, count]) => `  ${grouped(count)} failed: ${why.trim()}`);
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
        ...[model.success, model.inferences, model.executions].map(grouped),
        ...[model.batch, model.queue_ms, model.compute_ms].map(fine),
      ]),
    ),
    "",
    `requests    ${grouped(requests.finished)} of ${grouped(requests.arrived)} finished${requests.unfinished > 0 ? `, ${grouped(requests.unfinished)} unfinished` : ""}${requests.bad_lines > 0 ? `, ${grouped(requests.bad_lines)} bad lines` : ""}`,
    ...failed,
    `throughput  ${fine(results.requests_per_s)} requests/s`,
    `pending     ${grouped(results.pending_peak)} at most`,
    `simulated   ${fine(results.duration_s)} s in ${fine(wallUs / 1e6)} s of wall time`,
  ].join("\n");
}

const fine = (value: number | null) => (value === null ? "-" : decimal(value));

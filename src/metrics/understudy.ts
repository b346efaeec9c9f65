/** What do we say about ourselves? Every request exactly once, and how punctual the loop is. */
import type { LoopSnapshot, Outcome, TruthDropped } from "../engine/types.ts";
import { counter, gauge, histogram, type Row } from "./table.ts";

const OUTCOMES = ["stop", "length", "abort", "refused", "error"] as const satisfies readonly Outcome[];

const TRUTH = ["run", "step", "request"] as const satisfies readonly (keyof TruthDropped)[];

/** Everything of ours is moved by requests to a server. */
const BY_REQUESTS = { moves: "test/conformance/metrics-move.test.ts" };

const loopHistogram = (name: string, help: string, key: "stepStartLateness" | "stepWriteDuration") =>
  histogram("now", name, help, ({ loop }: { loop: LoopSnapshot }) => [[{}, loop[key]]], BY_REQUESTS);

export const understudy: readonly Row[] = [
  counter(
    "now",
    "understudy_requests_total",
    "Requests by how they ended, each counted once; refused = answered 4xx or 503 before the engine took it.",
    ({ front }) => OUTCOMES.map((outcome) => [{ outcome }, front.outcomes[outcome]]),
    BY_REQUESTS,
  ),
  gauge(
    "now",
    "understudy_streams_open",
    "Event streams that are open.",
    ({ front }) => [[{}, front.streamsOpen]],
    BY_REQUESTS,
  ),
  counter(
    "now",
    "understudy_worker_restarts_total",
    "Worker processes that were started in the place of dead ones.",
    ({ front }) => [[{}, front.workerRestarts]],
    { moves: "test/unit/metrics-shared.test.ts" },
  ),
  counter(
    "now",
    "understudy_steps_total",
    "Engine steps that ended.",
    ({ engines }, { engineFirst }) => engines.map(({ steps }, index) => [{ engine: `${engineFirst + index}` }, steps]),
    BY_REQUESTS,
  ),
  loopHistogram(
    "understudy_step_start_lateness_seconds",
    "How much later than due a step started.",
    "stepStartLateness",
  ),
  loopHistogram("understudy_step_write_seconds", "How long writing the rows of a step took.", "stepWriteDuration"),
  counter(
    "now",
    "understudy_clock_rebased_seconds_total",
    "Seconds by which engine time was set back because the host fell behind.",
    ({ loop }) => [[{}, loop.clockRebasedSeconds]],
    { moves: "test/unit/metrics-page.test.ts" },
  ),
  counter(
    "now",
    "understudy_truth_dropped_total",
    "Runs of tokens, rows of steps and rows of requests that the truth log lost, to full buffers or to the disk.",
    ({ truth }) => TRUTH.map((kind) => [{ kind }, truth?.[kind] ?? 0]),
    { moves: "test/unit/metrics-page.test.ts" },
  ),
];

/** Understudy's own metrics: every request exactly once, and the lateness of steps. */

import { OUTCOMES, TRUTH_NAMES } from "../../engine/interface/numbers.ts";
import type { FrontSnapshot, HistogramSnapshot, LoopSnapshot } from "../../engine/interface/types.ts";
import { FAULT_IDS } from "../../faults/ids.ts";
import {
  counter,
  type EngineNumber,
  gauge,
  histogram,
  type Proof,
  pickedFrom,
  type Row,
  type SeriesReader,
} from "../rows/table.ts";

type Keys<T, V> = { [K in keyof T]: T[K] extends V ? K : never }[keyof T];

/** Requests to a server change all of these families. */
const BY_REQUESTS: Proof = { moves: "test/conformance/metrics-move.test.ts" };
const IN_PAGES: Proof = { moves: "test/metrics/page.test.ts" };

const loopHistogram = (name: string, help: string, key: Keys<LoopSnapshot, HistogramSnapshot>) =>
  histogram("now", name, help, ({ loop }) => [[{}, loop[key]]], BY_REQUESTS);

const frontGauge = (name: string, help: string, key: Keys<FrontSnapshot, number>, proof = BY_REQUESTS) =>
  gauge("now", name, help, ({ front }) => [[{}, front[key]]], proof);

const each =
  (number: EngineNumber): SeriesReader<number> =>
  ({ engines }, { engineFirst }) =>
    engines.map((engine, index) => [{ engine: `${engineFirst + index}` }, pickedFrom(engine, number)]);

/** Lateness of steps. Also on the page of a Triton server. */
export const LATENESS = [
  [
    "understudy_step_start_lateness_seconds",
    "Lateness of the start of a step, relative to its due time.",
    "stepStartLateness",
  ],
  [
    "understudy_step_end_lateness_seconds",
    "Lateness of the last row of a step, relative to the step's due time.",
    "stepEndLateness",
  ],
] as const;

/** Also on the page of a Triton server. */
export const LOG_LINES_DROPPED = {
  name: "understudy_log_lines_dropped_total",
  help: "Log lines that were dropped because nothing read standard output or standard error.",
} as const;

const KV_DROPPED = { batches: "kvBatchesDropped", events: "kvEventsDropped", messages: "kvMessagesDropped" } as const;

export const understudy: readonly Row[] = [
  counter(
    "now",
    "understudy_requests_total",
    "Requests by outcome, each counted once; refused = answered with 4xx or 503 before the engine accepted it.",
    ({ front }) => OUTCOMES.map((outcome) => [{ outcome }, front.outcomes[outcome]]),
    BY_REQUESTS,
  ),
  frontGauge("understudy_requests_open", "Generation requests in progress.", "requestsOpen"),
  frontGauge("understudy_streams_open", "Open event streams.", "streamsOpen"),
  frontGauge(
    "understudy_held_bytes",
    "Bytes of answers that wait for slow clients: events that the socket has not accepted, and token ids.",
    "bytesHeld",
    { moves: "test/conformance/metrics-slow.test.ts" },
  ),
  counter(
    "now",
    "understudy_faults_total",
    "Answers on which a fault acted, by fault id; faults that never acted are not shown.",
    ({ front }) => FAULT_IDS.filter((id) => front.faults[id]! > 0).map((fault) => [{ fault }, front.faults[fault]!]),
    { moves: "test/faults/wire.test.ts" },
  ),
  gauge(
    "now",
    "understudy_stream_writes_info",
    "How plain tokens of streams are sent: batched = all tokens of a step in one native call, single = one call per token.",
    (_, { streamWrites }) => (streamWrites === undefined ? [] : [[{ mode: streamWrites }, 1]]),
    { still: "decided once at the start" },
  ),
  counter(
    "now",
    "understudy_worker_restarts_total",
    "Worker processes that replaced dead ones.",
    ({ front }) => [[{}, front.workerRestarts]],
    { moves: "test/metrics/rows/shared.test.ts" },
  ),
  counter("now", LOG_LINES_DROPPED.name, LOG_LINES_DROPPED.help, ({ front }) => [[{}, front.logLinesDropped]], {
    moves: "test/conformance/unread-output.test.ts",
  }),
  counter(
    "now",
    "understudy_kv_events_dropped_total",
    "KV events that subscribers do not get: batches because publishing was too slow, events that depend on dropped ones, messages to subscribers that do not read.",
    ({ front }) => Object.entries(KV_DROPPED).map(([kind, name]) => [{ kind }, front[name]]),
    { moves: "test/kv-events/dropped-metric.test.ts" },
  ),
  counter("now", "understudy_steps_total", "Engine steps that ended.", each("steps"), BY_REQUESTS),
  ...LATENESS.map(([name, help, key]) => loopHistogram(name, help, key)),
  loopHistogram("understudy_step_write_seconds", "Duration of writing the rows of a step.", "stepWriteDuration"),
  loopHistogram(
    "understudy_step_host_seconds",
    "Time of the event loop's thread for a step: update, writing and the next plan.",
    "stepHostTime",
  ),
  loopHistogram(
    "understudy_event_loop_delay_seconds",
    "Delay of a timer in the event loop, measured twice a second.",
    "eventLoopDelay",
  ),
  counter(
    "now",
    "understudy_clock_rebased_seconds_total",
    "Seconds by which engine time was moved forward because the host fell behind.",
    ({ loop }) => [[{}, loop.clockRebasedSeconds]],
    IN_PAGES,
  ),
  gauge(
    "now",
    "understudy_core_memory_bytes",
    "Memory of an engine's core, allocated at the start; untouched pages take no physical memory.",
    each("coreMemoryBytes"),
    { still: "a core allocates all its memory at the start" },
  ),
  counter(
    "now",
    "understudy_truth_dropped_total",
    "Runs of tokens, rows of steps and rows of requests that the truth log lost through full buffers or the disk.",
    ({ truth }) => TRUTH_NAMES.map((kind) => [{ kind }, truth?.[kind] ?? 0]),
    IN_PAGES,
  ),
];

/** Snapshots for the tests of the metrics: an empty one and random ones. */
import fc from "fast-check";
import { histogramBounds, LOOP_BOUNDS } from "../../src/engine/config/buckets.ts";
import {
  ENGINE_NAMES,
  FRONT_NAMES,
  LOOP_HISTOGRAMS,
  LOOP_NAMES,
  OUTCOMES,
  TOOL_LOOKS,
  type ToolLook,
} from "../../src/engine/interface/numbers.ts";
import type { EngineSnapshot, HistogramName, HistogramSnapshot, Snapshot } from "../../src/engine/interface/types.ts";
import { DEFAULT_PRESET } from "../../src/engine/timing/presets.ts";
import { FAULT_IDS } from "../../src/faults/ids.ts";
import { CURRENT } from "../../src/metrics/config/metrics-profiles.ts";
import {
  DEFAULT_ENSEMBLE,
  DEFAULT_INTERVAL_MS,
  type TritonMetricsConfig,
} from "../../src/metrics/config/triton-metrics.ts";
import { refreshesOf } from "../../src/metrics/dialects.ts";
import { tritonIdentity } from "../../src/metrics/ensemble/identity.ts";
import { Layout, type Shape } from "../../src/metrics/rows/flat.ts";
import { ALL_SECONDS, HTTP_WIDTH, HttpWord, NO_HANDLER } from "../../src/metrics/rows/http-counts.ts";
import type { Identity, Setup } from "../../src/metrics/rows/identity.ts";

/** Configuration from which Triton's part of an identity is made. */
/** Defaults. */
export const DEFAULT_TRITON_METRICS: TritonMetricsConfig = {
  metrics: true,
  gpu: true,
  cpu: true,
  ensemble: DEFAULT_ENSEMBLE,
  counters: true,
  histograms: false,
  quantiles: [],
  intervalMs: DEFAULT_INTERVAL_MS,
  listen: null,
};

const SERVED = {
  workers: 1,
  metrics: { role: "vllm", triton: { ...DEFAULT_TRITON_METRICS, cpu: false } },
  engine: { blockSize: 16, numGpuBlocks: 100, maxNumSeqs: 256 },
  deployment: { preset: DEFAULT_PRESET, gpuMemoryUtilization: 0.9 },
} as const;

export const identity: Identity = {
  role: "vllm",
  modelName: "m",
  engineFirst: 0,
  startedS: 1.7e9,
  cacheConfig: { block_size: "16", num_gpu_blocks: "100" },
  http: [
    { handler: "/v1/completions", method: "POST" },
    { handler: NO_HANDLER, method: "GET" },
  ],
  ownProcess: false,
  profile: CURRENT,
  showHidden: false,
  maxLoras: 0,
  adapters: [],
  triton: tritonIdentity(SERVED, 1.5),
  fixes: [],
  bugs: [],
  disableLogStats: false,
};

export const emptyHistogram = (bounds: readonly number[]): HistogramSnapshot => ({
  bounds,
  buckets: Array(bounds.length + 1).fill(0),
  sum: 0,
  count: 0,
});

function filled<Name extends string, T>(names: readonly Name[], value: T) {
  return Object.fromEntries(names.map((name) => [name, value])) as Record<Name, T>;
}
const zeros = <Name extends string>(names: readonly Name[]) => filled(names, 0);

export function emptyEngine(maxModelLen = 4096): EngineSnapshot {
  const bounds = Object.entries(histogramBounds({ maxModelLen })) as [HistogramName, readonly number[]][];
  return {
    ...zeros(ENGINE_NAMES),
    blocksUsable: 99,
    finished: [0, 0, 0, 0, 0],
    histograms: Object.fromEntries(
      bounds.map(([name, of]) => [name, emptyHistogram(of)]),
    ) as EngineSnapshot["histograms"],
    adapters: [],
    meters: [],
  };
}

export const emptySnapshot = (engines: readonly EngineSnapshot[] = [emptyEngine()]): Snapshot => ({
  engines,
  loop: {
    ...filled(LOOP_HISTOGRAMS, emptyHistogram(LOOP_BOUNDS)),
    ...zeros(LOOP_NAMES),
  },
  front: {
    ...zeros(FRONT_NAMES),
    outcomes: zeros(OUTCOMES),
    toolLooks: zeros(TOOL_LOOKS),
    faults: zeros(FAULT_IDS),
    http: { routes: Array(identity.http.length * HTTP_WIDTH).fill(0), duration: emptyHistogram(ALL_SECONDS) },
  },
});

export const shapeOf = ({ engines, loop, front, truth }: Snapshot): Shape => ({
  engines: engines.length,
  bounds: Object.fromEntries(
    Object.entries(engines[0]!.histograms).map(([name, { bounds }]) => [name, bounds]),
  ) as Shape["bounds"],
  loopBounds: loop.stepStartLateness.bounds,
  adapters: engines[0]!.adapters.length,
  meters: engines[0]!.meters.length,
  httpRoutes: front.http.routes.length / HTTP_WIDTH,
  truth: truth !== undefined,
});

/** For empty snapshots with some other numbers. */
export const setup: Setup = { identity, shape: shapeOf(emptySnapshot()), refreshes: refreshesOf(identity) };

/** Returns the snapshot as the copy of every class. */
export function heldOf(snapshot: Snapshot): Float64Array {
  const layout = new Layout(setup.shape);
  const numbers = new Float64Array(layout.length * setup.refreshes.length);
  setup.refreshes.forEach((_, index) => void layout.write(snapshot, numbers, index * layout.length));
  return numbers;
}

/** Counters pass 2^31, 2^32 and one million, where the number format changes. */
const count = fc.oneof(fc.nat(1000), fc.maxSafeInteger().map(Math.abs));

const histogram = (bounds: readonly number[]): fc.Arbitrary<HistogramSnapshot> =>
  fc
    .record({
      bounds: fc.constant(bounds),
      buckets: fc.array(fc.nat(1e9), { minLength: bounds.length + 1, maxLength: bounds.length + 1 }),
      sum: fc.double({ min: 0, max: 1e12, noNaN: true }),
    })
    .map((made) => ({ ...made, count: made.buckets.reduce((sum, bucket) => sum + bucket, 0) }));

const engineOf = (maxModelLen: number, adapters: number): fc.Arbitrary<EngineSnapshot> => {
  const empty = emptyEngine(maxModelLen);
  const histograms = Object.entries(empty.histograms).map(([name, { bounds }]) => [name, histogram(bounds)] as const);
  const scalars = Object.entries(empty).filter(([, value]) => typeof value === "number");
  return fc.record({
    ...Object.fromEntries(scalars.map(([name]) => [name, count])),
    kvUsage: fc.double({ min: 0, max: 1, noNaN: true }),
    finished: fc.tuple(count, count, count, count, count),
    histograms: fc.record(Object.fromEntries(histograms)),
    meters: fc.constant([]),
    adapters: fc.array(fc.record({ running: count, waiting: count, heard: count }), {
      minLength: adapters,
      maxLength: adapters,
    }),
  }) as unknown as fc.Arbitrary<EngineSnapshot>;
};

/** Routes with and without requests. A route's durations add up to its answers. */
const httpNumbers = fc
  .array(
    fc.option(fc.record({ answers: fc.array(fc.nat(1e6), { minLength: 5, maxLength: 5 }), sinceS: fc.nat(1e6) })),
    {
      minLength: identity.http.length,
      maxLength: identity.http.length,
    },
  )
  .map((routes) =>
    routes.flatMap((route) => {
      const row = Array<number>(HTTP_WIDTH).fill(0);
      route?.answers.forEach((count, status) => {
        row[HttpWord.answers + status] = count;
        row[HttpWord.since + status] = count > 0 ? 1 + route.sinceS + status : 0;
        row[HttpWord.buckets + (count % 4)]! += count;
      });
      return row;
    }),
  );

const withoutTruth = fc.record({
  // All engines of a server have the same shape.
  engines: fc
    .tuple(fc.integer({ min: 1, max: 200_000 }), fc.nat(3))
    .chain(([maxModelLen, adapters]) => fc.array(engineOf(maxModelLen, adapters), { minLength: 1, maxLength: 3 })),
  loop: fc.record({
    stepStartLateness: histogram(LOOP_BOUNDS),
    stepEndLateness: histogram(LOOP_BOUNDS),
    stepWriteDuration: histogram(LOOP_BOUNDS),
    stepHostTime: histogram(LOOP_BOUNDS),
    eventLoopDelay: histogram(LOOP_BOUNDS),
    clockRebasedSeconds: fc.double({ min: 0, max: 1e9, noNaN: true }),
    stepsLate: count,
  }),
  front: fc.record({
    outcomes: fc.record({ stop: count, length: count, abort: count, refused: count, error: count }),
    faults: fc.record(Object.fromEntries(FAULT_IDS.map((id) => [id, count])) as Record<string, typeof count>),
    toolLooks: fc.record(Object.fromEntries(TOOL_LOOKS.map((look) => [look, count])) as Record<ToolLook, typeof count>),
    requestsOpen: count,
    streamsOpen: count,
    bytesHeld: count,
    http: fc.record({ routes: httpNumbers, duration: histogram(ALL_SECONDS) }),
    workerRestarts: count,
    logLinesDropped: count,
    kvBatchesDropped: count,
    kvEventsDropped: count,
    kvMessagesDropped: count,
    rejectedByRequests: count,
    rejectedByTokens: count,
  }),
});

/** With and without a truth log. */
export const anySnapshot: fc.Arbitrary<Snapshot> = fc.oneof(
  withoutTruth,
  fc.tuple(withoutTruth, fc.record({ run: count, step: count, request: count })).map(([snapshot, truth]) => ({
    ...snapshot,
    truth,
  })),
);

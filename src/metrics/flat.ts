/**
 * How does a snapshot travel, to the worker and between processes? As one array of doubles whose length and offsets are
 * fixed for a configuration: writing allocates nothing, and whoever has the shape can read it. Bounds of histograms are
 * part of the shape, not of the numbers.
 */
import { ALL_SECONDS, HTTP_WIDTH } from "../config/http-counts.ts";
import type {
  AdapterSnapshot,
  EngineSnapshot,
  EngineView,
  FrontSnapshot,
  HistogramName,
  HistogramSnapshot,
  HistogramView,
  LoopSnapshot,
  Outcome,
  Snapshot,
  SnapshotView,
  TruthDropped,
} from "../engine/types.ts";

/** What a process has to show: constant while it runs, plain data so that it can be posted. */
export interface Shape {
  readonly engines: number;
  readonly bounds: Readonly<Record<HistogramName, readonly number[]>>;
  readonly loopBounds: readonly number[];
  /** LoRA adapters that each engine knows. */
  readonly adapters: number;
  /** HTTP routes that are counted. */
  readonly httpRoutes: number;
  /** Numbers of what a server in front of each engine counts. */
  readonly passages: number;
  /** A truth log is written. */
  readonly truth: boolean;
}

// The order of the numbers. Records, so that the compiler finds a field that a snapshot has and this file lacks.
type Numbers<T> = { [K in keyof T as T[K] extends number ? K : never]: true };
const keys = <T extends string>(all: Record<T, true>) => Object.keys(all) as T[];

const ENGINE = keys({
  running: true,
  waiting: true,
  deferred: true,
  kvUsage: true,
  blocksUsed: true,
  blocksUsable: true,
  steps: true,
  takenUs: true,
  iterations: true,
  busyUs: true,
  planRequests: true,
  planScheduled: true,
  planPrefills: true,
  planPrefillTokens: true,
  planPreempted: true,
  sleep: true,
  coreMemoryBytes: true,
  promptTokens: true,
  promptTokensCached: true,
  generationTokens: true,
  preemptions: true,
  preemptionsTold: true,
  abortedByEngine: true,
  prefixQueries: true,
  prefixHits: true,
  preemptedQueries: true,
  preemptedHits: true,
} satisfies Numbers<EngineSnapshot>);
const HISTOGRAMS = keys<HistogramName>({
  timeToFirstToken: true,
  interTokenLatency: true,
  e2eLatency: true,
  queueTime: true,
  prefillTime: true,
  decodeTime: true,
  inferenceTime: true,
  timePerOutputToken: true,
  promptTokens: true,
  generationTokens: true,
  maxTokens: true,
  iterationTokens: true,
  requestPreemptions: true,
  prefillComputed: true,
  requestChoices: true,
  longestChoice: true,
});
const ADAPTER = keys({ running: true, waiting: true, heard: true } satisfies Numbers<AdapterSnapshot>);
const LOOP = keys({ clockRebasedSeconds: true, stepsLate: true } satisfies Numbers<LoopSnapshot>);
const LOOP_HISTOGRAMS = keys({
  stepStartLateness: true,
  stepEndLateness: true,
  stepWriteDuration: true,
  stepHostTime: true,
  eventLoopDelay: true,
} satisfies { [K in Exclude<keyof LoopSnapshot, (typeof LOOP)[number]>]: true });
const FRONT = keys({
  requestsOpen: true,
  streamsOpen: true,
  bytesHeld: true,
  rejectedByRequests: true,
  rejectedByTokens: true,
  toolsStreamCalledChat: true,
  toolsStreamCalledResponses: true,
  toolsStreamPlainChat: true,
  toolsStreamPlainResponses: true,
  toolsWholeCalledChat: true,
  toolsWholeCalledResponses: true,
  toolsWholePlainChat: true,
  toolsWholePlainResponses: true,
  workerRestarts: true,
} satisfies Numbers<FrontSnapshot>);
const OUTCOMES = keys<Outcome>({ stop: true, length: true, abort: true, refused: true, error: true });
const TRUTH = keys({ run: true, step: true, request: true } satisfies Numbers<TruthDropped>);
const FINISHES = 5;

/** Numbers of a histogram: one bucket more than bounds, and the sum; the count is that of the buckets. */
const widthOf = (bounds: readonly number[]) => bounds.length + 2;

export class Layout {
  /** Doubles that `write` writes, whatever they are. */
  readonly length: number;
  #into: Float64Array = new Float64Array();
  #at = 0;

  constructor(readonly shape: Shape) {
    const { engines, bounds, loopBounds, adapters, httpRoutes, passages, truth } = shape;
    const histograms = HISTOGRAMS.reduce((sum, name) => sum + widthOf(bounds[name]), 0);
    this.length =
      engines * (ENGINE.length + FINISHES + histograms + adapters * ADAPTER.length + passages) +
      (LOOP.length + LOOP_HISTOGRAMS.length * widthOf(loopBounds)) +
      (FRONT.length + OUTCOMES.length + httpRoutes * HTTP_WIDTH + widthOf(ALL_SECONDS)) +
      (truth ? TRUTH.length : 0);
  }

  /** Writes `length` doubles from `from` on. The snapshot may be a live view; nothing is allocated. */
  write({ engines, loop, front, truth }: SnapshotView, into: Float64Array, from = 0): void {
    this.#into = into;
    this.#at = from;
    for (let i = 0; i < this.shape.engines; i++) this.#writeEngine(engines[i]!);
    for (const key of LOOP) this.#put(loop[key]);
    for (const key of LOOP_HISTOGRAMS) this.#writeHistogram(loop[key]);
    for (const key of FRONT) this.#put(front[key]);
    for (const key of OUTCOMES) this.#put(front.outcomes[key]);
    const { routes, duration } = front.http;
    this.#putAll(routes);
    this.#writeHistogram(duration);
    if (this.shape.truth) for (const key of TRUTH) this.#put(truth?.[key] ?? 0);
  }

  /** The snapshot that stands in `numbers` from `from` on, copied. */
  read(numbers: Float64Array, from = 0): Snapshot {
    let at = from;
    const next = () => numbers[at++]!;
    const list = (length: number) => Array.from({ length }, next);
    const record = <K extends string>(names: readonly K[]) =>
      Object.fromEntries(names.map((name) => [name, next()])) as Record<K, number>;
    const histogram = (bounds: readonly number[]): HistogramSnapshot => {
      const buckets = list(bounds.length + 1);
      return { bounds, buckets, sum: next(), count: buckets.reduce((count, bucket) => count + bucket, 0) };
    };
    const histograms = <K extends string>(names: readonly K[], boundsOf: (name: K) => readonly number[]) =>
      Object.fromEntries(names.map((name) => [name, histogram(boundsOf(name))])) as Record<K, HistogramSnapshot>;
    const { engines, bounds, loopBounds, adapters, httpRoutes, passages, truth } = this.shape;
    const engine = (): EngineSnapshot => ({
      ...record(ENGINE),
      finished: list(FINISHES) as unknown as EngineSnapshot["finished"],
      histograms: histograms(HISTOGRAMS, (name) => bounds[name]),
      adapters: Array.from({ length: adapters }, () => record(ADAPTER)),
      passages: list(passages),
    });
    return {
      engines: Array.from({ length: engines }, engine),
      loop: { ...record(LOOP), ...histograms(LOOP_HISTOGRAMS, () => loopBounds) },
      front: {
        ...record(FRONT),
        outcomes: record(OUTCOMES),
        http: { routes: list(httpRoutes * HTTP_WIDTH), duration: histogram(ALL_SECONDS) },
      },
      ...(truth ? { truth: record(TRUTH) } : {}),
    };
  }

  #writeEngine(engine: EngineView): void {
    for (const key of ENGINE) this.#put(engine[key]);
    this.#putAll(engine.finished);
    for (const name of HISTOGRAMS) this.#writeHistogram(engine.histograms[name]);
    for (let i = 0; i < this.shape.adapters; i++) for (const key of ADAPTER) this.#put(engine.adapters[i]![key]);
    this.#putAll(engine.passages);
  }

  #writeHistogram({ buckets, sum }: HistogramView): void {
    this.#putAll(buckets);
    this.#put(sum);
  }

  #putAll(values: ArrayLike<number>): void {
    this.#into.set(values, this.#at);
    this.#at += values.length;
  }

  #put(value: number): void {
    this.#into[this.#at++] = value;
  }
}

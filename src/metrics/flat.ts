/**
 * How does a snapshot travel to the worker? As one array of doubles that is handed over, not copied again.
 * It describes itself: a histogram is its number of bounds, the bounds, one bucket more than bounds, sum, count.
 */
import type {
  EngineSnapshot,
  FrontSnapshot,
  HistogramName,
  HistogramSnapshot,
  LoopSnapshot,
  Outcome,
  Snapshot,
  TruthDropped,
} from "../engine/types.ts";

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
  promptTokens: true,
  promptTokensCached: true,
  generationTokens: true,
  preemptions: true,
  prefixQueries: true,
  prefixHits: true,
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
});
const LOOP = keys({ clockRebasedSeconds: true, stepsLate: true } satisfies Numbers<LoopSnapshot>);
const LOOP_HISTOGRAMS = ["stepStartLateness", "stepWriteDuration"] as const satisfies readonly (keyof LoopSnapshot)[];
const FRONT = keys({ streamsOpen: true } satisfies Numbers<FrontSnapshot>);
const OUTCOMES = keys<Outcome>({ stop: true, length: true, abort: true, refused: true, error: true });
const TRUTH = keys({ run: true, step: true, request: true } satisfies Numbers<TruthDropped>);
const FINISHES = 5;

export function flatten({ engines, loop, front, truth }: Snapshot): Float64Array<ArrayBuffer> {
  const numbers: number[] = [engines.length];
  for (const engine of engines) {
    for (const key of ENGINE) numbers.push(engine[key]);
    numbers.push(...engine.finished);
    for (const key of HISTOGRAMS) pushHistogram(numbers, engine.histograms[key]);
  }
  for (const key of LOOP) numbers.push(loop[key]);
  for (const key of LOOP_HISTOGRAMS) pushHistogram(numbers, loop[key]);
  for (const key of FRONT) numbers.push(front[key]);
  for (const key of OUTCOMES) numbers.push(front.outcomes[key]);
  if (truth) for (const key of TRUTH) numbers.push(truth[key]);
  return Float64Array.from(numbers);
}

function pushHistogram(numbers: number[], { bounds, buckets, sum, count }: HistogramSnapshot): void {
  numbers.push(bounds.length);
  for (const bound of bounds) numbers.push(bound);
  for (const bucket of buckets) numbers.push(bucket);
  numbers.push(sum, count);
}

/** The snapshot that `flatten` was given. */
export function unflatten(numbers: Float64Array): Snapshot {
  let at = 0;
  const next = () => numbers[at++]!;
  const list = (length: number) => Array.from({ length }, next);
  const record = <K extends string>(names: readonly K[]) =>
    Object.fromEntries(names.map((name) => [name, next()])) as Record<K, number>;
  const histogram = (): HistogramSnapshot => {
    const bounds = list(next());
    return { bounds, buckets: list(bounds.length + 1), sum: next(), count: next() };
  };
  const histograms = <K extends string>(names: readonly K[]) =>
    Object.fromEntries(names.map((name) => [name, histogram()])) as Record<K, HistogramSnapshot>;

  const engine = (): EngineSnapshot => ({
    ...record(ENGINE),
    finished: list(FINISHES) as unknown as EngineSnapshot["finished"],
    histograms: histograms(HISTOGRAMS),
  });
  return {
    engines: Array.from({ length: next() }, engine),
    loop: { ...record(LOOP), ...histograms(LOOP_HISTOGRAMS) },
    front: { ...record(FRONT), outcomes: record(OUTCOMES) },
    ...(at < numbers.length ? { truth: record(TRUTH) } : {}),
  };
}

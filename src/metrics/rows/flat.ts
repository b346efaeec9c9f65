/**
 * Converts snapshots to and from arrays of doubles, which travel to the worker and between processes. Length and
 * offsets are fixed for a configuration, so writing allocates nothing and any reader with the shape can read the array.
 * Bounds of histograms are in the shape, not in the array.
 */

import {
  ADAPTER_NAMES,
  ENGINE_NAMES,
  FRONT_NAMES,
  HISTOGRAMS,
  LOOP_HISTOGRAMS,
  LOOP_NAMES,
  OUTCOMES,
  TOOL_LOOKS,
  TRUTH_NAMES,
} from "../../engine/interface/numbers.ts";
import type {
  EngineSnapshot,
  EngineView,
  HistogramName,
  HistogramSnapshot,
  HistogramView,
  Snapshot,
  SnapshotView,
} from "../../engine/interface/types.ts";
import { FAULT_IDS } from "../../faults/ids.ts";
import { ALL_SECONDS, HTTP_WIDTH } from "./http-counts.ts";

/** Defines the numbers of a process. Constant for its life. Plain data, so that it can be posted to a thread. */
export interface Shape {
  readonly engines: number;
  readonly bounds: Readonly<Record<HistogramName, readonly number[]>>;
  readonly loopBounds: readonly number[];
  /** LoRA adapters for which each engine has numbers. */
  readonly adapters: number;
  /** Number of HTTP routes with counts. */
  readonly httpRoutes: number;
  /** Numbers of the request meter of each engine. */
  readonly meters: number;
  /** True if a truth log is written. */
  readonly truth: boolean;
}

const HISTOGRAM_NAMES = HISTOGRAMS.map(({ name }) => name);
const FINISHES = 5;

export class Layout {
  /** Number of doubles that `write` writes. */
  readonly length: number;
  #into: Float64Array = new Float64Array();
  #at = 0;

  constructor(readonly shape: Shape) {
    // Reading an empty array moves `#at` past the last number, so the length follows from `read` alone.
    this.read(this.#into);
    this.length = this.#at;
  }

  /** Writes `length` doubles from index `from` on. Accepts a live view and allocates nothing. */
  write({ engines, loop, front, truth }: SnapshotView, into: Float64Array, from = 0): void {
    this.#into = into;
    this.#at = from;
    for (let i = 0; i < this.shape.engines; i++) this.#writeEngine(engines[i]!);
    for (const key of LOOP_NAMES) this.#put(loop[key]);
    for (const key of LOOP_HISTOGRAMS) this.#writeHistogram(loop[key]);
    for (const key of FRONT_NAMES) this.#put(front[key]);
    for (const key of OUTCOMES) this.#put(front.outcomes[key]);
    for (const key of TOOL_LOOKS) this.#put(front.toolLooks[key]);
    for (const id of FAULT_IDS) this.#put(front.faults[id]!);
    const { routes, duration } = front.http;
    this.#putAll(routes);
    this.#writeHistogram(duration);
    if (this.shape.truth) for (const key of TRUTH_NAMES) this.#put(truth?.[key] ?? 0);
  }

  /** Returns a copy of the snapshot in `numbers` from index `from` on. */
  read(numbers: Float64Array, from = 0): Snapshot {
    this.#at = from;
    const next = () => numbers[this.#at++]!;
    const list = (length: number) => Array.from({ length }, next);
    const record = <K extends string>(names: readonly K[]) =>
      Object.fromEntries(names.map((name) => [name, next()])) as Record<K, number>;
    const histogram = (bounds: readonly number[]): HistogramSnapshot => {
      const buckets = list(bounds.length + 1);
      return { bounds, buckets, sum: next(), count: buckets.reduce((count, bucket) => count + bucket, 0) };
    };
    const histograms = <K extends string>(names: readonly K[], boundsOf: (name: K) => readonly number[]) =>
      Object.fromEntries(names.map((name) => [name, histogram(boundsOf(name))])) as Record<K, HistogramSnapshot>;
    const { engines, bounds, loopBounds, adapters, httpRoutes, meters, truth } = this.shape;
    const engine = (): EngineSnapshot => ({
      ...record(ENGINE_NAMES),
      finished: list(FINISHES) as unknown as EngineSnapshot["finished"],
      histograms: histograms(HISTOGRAM_NAMES, (name) => bounds[name]),
      adapters: Array.from({ length: adapters }, () => record(ADAPTER_NAMES)),
      meters: list(meters),
    });
    return {
      engines: Array.from({ length: engines }, engine),
      loop: { ...record(LOOP_NAMES), ...histograms(LOOP_HISTOGRAMS, () => loopBounds) },
      front: {
        ...record(FRONT_NAMES),
        outcomes: record(OUTCOMES),
        toolLooks: record(TOOL_LOOKS),
        faults: record(FAULT_IDS),
        http: { routes: list(httpRoutes * HTTP_WIDTH), duration: histogram(ALL_SECONDS) },
      },
      ...(truth ? { truth: record(TRUTH_NAMES) } : {}),
    };
  }

  #writeEngine(engine: EngineView): void {
    for (const key of ENGINE_NAMES) this.#put(engine[key]);
    this.#putAll(engine.finished);
    for (const name of HISTOGRAM_NAMES) this.#writeHistogram(engine.histograms[name]);
    for (let i = 0; i < this.shape.adapters; i++) for (const key of ADAPTER_NAMES) this.#put(engine.adapters[i]![key]);
    this.#putAll(engine.meters);
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

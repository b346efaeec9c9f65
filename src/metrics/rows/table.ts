/**
 * What is a row of a dialect's table, and how does prom-client collect it? The engine owns the numbers,
 * the registry asks each row for its samples at the scrape.
 */
import type { Metric, Registry } from "prom-client";
import type { ENGINE_NAMES } from "../../engine/interface/numbers.ts";
import type { EngineSnapshot, HistogramSnapshot, Snapshot } from "../../engine/interface/types.ts";
import type { Identity } from "./identity.ts";
import { areEqual, type Family, type Labels, type Sample, type Style } from "./text.ts";

/** How fresh a family is: at the scrape, after the last step, or every so many milliseconds. */
export type Refresh = "now" | "step" | { readonly everyMs: number };

/** One series: its labels and where its value is read. */
export type Series<Value> = readonly [labels: Labels, value: Value];
export type Read<Value> = (snapshot: Snapshot, identity: Identity) => readonly Series<Value>[];

/** Which test makes a family move (a file from the repository's root that speaks of it), or why nothing here can. */
export type Proof = { readonly moves: string } | { readonly still: string };

/** A number of an engine: its name, or how it is made of several. */
export type EngineNumber = (typeof ENGINE_NAMES)[number] | ((engine: EngineSnapshot) => number);

export const pickedFrom = (engine: EngineSnapshot, number: EngineNumber): number =>
  typeof number === "string" ? engine[number] : number(engine);

export interface Row {
  readonly name: string;
  readonly help: string;
  readonly type: Family["type"];
  readonly refresh: Refresh;
  readonly samples: (snapshot: Snapshot, identity: Identity) => readonly Sample[];
  /** When each of its series came to be, seconds since 1970; absent where the real server does not show it. `samples`: those just made. */
  readonly created?: (snapshot: Snapshot, identity: Identity, samples: readonly Sample[]) => readonly Sample[];
  readonly proof: Proof;
  /** Shows also what no copy holds, such as the time: made anew for each page. */
  readonly live?: true;
}

type Constructor<Value> = (refresh: Refresh, name: string, help: string, read: Read<Value>, proof: Proof) => Row;

const rows =
  <Value>(
    type: Family["type"],
    /** Once per row; `at` counts its series. */
    samplesOf: (name: string) => (series: Series<Value>, at: number) => readonly Sample[],
  ): Constructor<Value> =>
  (refresh, name, help, read, proof) => {
    const of = samplesOf(name);
    const samples: Row["samples"] = (snapshot, identity) => read(snapshot, identity).flatMap(of);
    return { name, help, type, refresh, samples, proof };
  };

const single =
  () =>
  ([labels, value]: Series<number>) => [{ labels, value }];
export const gauge = rows<number>("gauge", single);
export const counter = rows<number>("counter", single);

/** Buckets become cumulative here; samples in the order of prometheus_client: buckets, count, sum. */
export const histogram = rows<HistogramSnapshot>("histogram", (name) => {
  const [bucket, whole, total] = [`${name}_bucket`, `${name}_count`, `${name}_sum`];
  /** By series: the labels of its buckets, which are always the same ones. */
  const known: BucketLabels[] = [];
  return ([series, { bounds, buckets, sum, count }], at) => {
    let of = known[at];
    if (of === undefined || of.bounds !== bounds || !areEqual(of.labels, series)) {
      const les = buckets.map((_, index) => ({ ...series, le: bounds[index] ?? Number.POSITIVE_INFINITY }));
      of = { labels: series, bounds, les };
      known[at] = of;
    }
    const { labels, les } = of;
    let below = 0;
    const samples: Sample[] = [];
    for (let i = 0; i < les.length; i++) {
      below += buckets[i]!;
      samples.push({ metricName: bucket, labels: les[i]!, value: below });
    }
    samples.push({ metricName: whole, labels, value: count }, { metricName: total, labels, value: sum });
    return samples;
  };
});

interface BucketLabels {
  readonly labels: Labels;
  readonly bounds: readonly number[];
  readonly les: readonly Labels[];
}

export interface SummarySnapshot {
  readonly count: number;
  readonly sum: number;
  readonly quantiles: readonly (readonly [quantile: number, value: number])[];
}

/** Samples in the order of prometheus_client and prometheus-cpp: count, sum, quantiles. */
export const summary = rows<SummarySnapshot>("summary", (name) => ([labels, { count, sum, quantiles }]) => [
  { metricName: `${name}_count`, labels, value: count },
  { metricName: `${name}_sum`, labels, value: sum },
  ...quantiles.map(([quantile, value]) => ({ labels: { ...labels, quantile }, value })),
]);

/** prometheus_client says of each series of a counter, histogram or summary when it came to be: here, with the process. */
export function withCreated(rows: readonly Row[]): readonly Row[] {
  return rows.map((row) =>
    row.type === "gauge" || row.created
      ? row
      : {
          ...row,
          created: (_, identity, samples) =>
            samples
              .filter(({ metricName }) => metricName === undefined || metricName === `${row.name}_count`)
              .map(({ labels }) => ({ labels, value: identity.startedS })),
        },
  );
}

/** What a registry collects from a row: prom-client's own form, and what printing needs beside it. */
export interface Collected extends Family {
  readonly style: Style;
}

/**
 * Puts a table into a registry. `held` gives the copy that a refresh class shows; all families of one answer must see
 * the same ones. `remember` is made once per row. A name twice throws.
 */
export function register(
  table: readonly Row[],
  registry: Registry,
  held: (refresh: Refresh) => Snapshot,
  identity: Identity,
  style: Style,
  remember: (row: Row, make: () => Collected) => () => Collected = (_, make) => make,
): void {
  for (const row of table) {
    const { samples, created, refresh, name, help, type } = row;
    const family = { name, help, type, style, aggregator: "sum" };
    const make = () => {
      const snapshot = held(refresh);
      const values = samples(snapshot, identity);
      return { ...family, values, ...(created ? { created: created(snapshot, identity, values) } : {}) };
    };
    registry.registerMetric({ ...family, get: remember(row, make) } as unknown as Metric<string>);
  }
}

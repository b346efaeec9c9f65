/**
 * Rows of a dialect's table, and how prom-client collects them. The engine owns the numbers, and the registry asks each
 * row for its samples at a scrape.
 */
import type { Metric, Registry } from "prom-client";
import type { ENGINE_NAMES } from "../../engine/interface/numbers.ts";
import type { EngineSnapshot, HistogramSnapshot, Snapshot } from "../../engine/interface/types.ts";
import type { Identity } from "./identity.ts";
import { areEqual, type Family, type Labels, type Sample, type Style } from "./text.ts";

/** When a family's numbers are read: at the scrape, after the last step, or at intervals in milliseconds. */
export type Refresh = "now" | "step" | { readonly everyMs: number };

/** One series: its labels and its value. */
export type Series<Value> = readonly [labels: Labels, value: Value];
export type SeriesReader<Value> = (snapshot: Snapshot, identity: Identity) => readonly Series<Value>[];

/** Test that makes a family change (a file, from the repository's root), or the reason why it never changes here. */
export type Proof = { readonly moves: string } | { readonly still: string };

/** A number of an engine, by name or computed from several. */
export type EngineNumber = (typeof ENGINE_NAMES)[number] | ((engine: EngineSnapshot) => number);

export const pickedFrom = (engine: EngineSnapshot, number: EngineNumber): number =>
  typeof number === "string" ? engine[number] : number(engine);

export interface Row {
  readonly name: string;
  readonly help: string;
  readonly type: Family["type"];
  readonly refresh: Refresh;
  readonly samples: (snapshot: Snapshot, identity: Identity) => readonly Sample[];
  /**
   * Returns when each series was created, in seconds since 1970. Absent if the real server does not show it. `samples`:
   * the samples just collected.
   */
  readonly created?: (snapshot: Snapshot, identity: Identity, samples: readonly Sample[]) => readonly Sample[];
  readonly proof: Proof;
  /** True if a gauge is a floating-point number in the real server, so that a style with whole numbers prints `1.0`. */
  readonly floats?: true;
  /** True if the row also shows values that no copy has, such as the time. It is collected for each page. */
  readonly live?: true;
}

/** Function that makes the row of a metric. `Value`: type of the values that `read` returns. */
export type RowMaker<Value> = (
  refresh: Refresh,
  name: string,
  help: string,
  read: SeriesReader<Value>,
  proof: Proof,
) => Row;

const rows =
  <Value>(
    type: Family["type"],
    /** Called once per row. `at` is the index of the series. */
    samplesOf: (name: string) => (series: Series<Value>, at: number) => readonly Sample[],
  ): RowMaker<Value> =>
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

/** Makes a histogram row with cumulative buckets. Samples are in the order of prometheus_client: buckets, count, sum. */
export const histogram = rows<HistogramSnapshot>("histogram", (name) => {
  const [bucket, whole, total] = [`${name}_bucket`, `${name}_count`, `${name}_sum`];
  /** Labels of the buckets, by series. They are reused, because they are always the same. */
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

/** Makes a summary row. Samples are in the order of prometheus_client and prometheus-cpp: count, sum, quantiles. */
export const summary = rows<SummarySnapshot>("summary", (name) => ([labels, { count, sum, quantiles }]) => [
  { metricName: `${name}_count`, labels, value: count },
  { metricName: `${name}_sum`, labels, value: sum },
  ...quantiles.map(([quantile, value]) => ({ labels: { ...labels, quantile }, value })),
]);

/**
 * Adds the creation time of each series of counters, histograms and summaries, as prometheus_client does. Here it is
 * the start of the process.
 */
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

/** A family as a registry collects it: prom-client's form and the data for printing. */
export interface CollectedFamily extends Family {
  readonly style: Style;
}

/**
 * Registers a table. `copyOf` returns the copy of a refresh class, and all families of a page must see the same copies.
 * `remember` wraps the collection of each row. Throws if a name occurs twice.
 */
export function register(
  table: readonly Row[],
  registry: Registry,
  copyOf: (refresh: Refresh) => Snapshot,
  identity: Identity,
  style: Style,
  remember: (row: Row, make: () => CollectedFamily) => () => CollectedFamily = (_, make) => make,
): void {
  for (const row of table) {
    const { samples, created, refresh, name, help, type, floats } = row;
    const family = { name, help, type, style, aggregator: "sum", ...(floats ? { floats } : {}) };
    const make = () => {
      const snapshot = copyOf(refresh);
      const values = samples(snapshot, identity);
      return { ...family, values, ...(created ? { created: created(snapshot, identity, values) } : {}) };
    };
    registry.registerMetric({ ...family, get: remember(row, make) } as unknown as Metric<string>);
  }
}

/**
 * What is a row of a dialect's table, and how does prom-client collect it? The engine owns the numbers,
 * the registry asks each row for its samples at the scrape.
 */
import type { Metric, Registry } from "prom-client";
import type { HistogramSnapshot, Snapshot } from "../engine/types.ts";
import type { Labels, Sample } from "./text.ts";

/** How fresh a family is: at the scrape, after the last step, or every so many milliseconds. */
export type Refresh = "now" | "step" | { readonly everyMs: number };

/** Who answers: constant for the life of the process, plain data so that it can be posted to a worker. */
export interface Identity {
  /** The first served model name. */
  readonly modelName: string;
  /** Label of the first engine of this process; the others follow. */
  readonly engineFirst: number;
  /** Start of the process: seconds since 1970. */
  readonly startedS: number;
  /** Labels of `vllm:cache_config_info` but `engine`. */
  readonly cacheConfig: Labels;
  /** `--disable-log-stats`: vLLM then shows none of its own families. */
  readonly disableLogStats: boolean;
}

/** One series: its labels and where its value is read. */
export type Series<Value> = readonly [labels: Labels, value: Value];
export type Read<Value> = (snapshot: Snapshot, identity: Identity) => readonly Series<Value>[];

export interface Row {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter" | "histogram";
  readonly refresh: Refresh;
  readonly samples: (snapshot: Snapshot, identity: Identity) => readonly Sample[];
}

type Constructor<Value> = (refresh: Refresh, name: string, help: string, read: Read<Value>) => Row;

const plain =
  (type: "gauge" | "counter"): Constructor<number> =>
  (refresh, name, help, read) => ({
    name,
    help,
    type,
    refresh,
    samples: (snapshot, identity) => read(snapshot, identity).map(([labels, value]) => ({ labels, value })),
  });

export const gauge = plain("gauge");
export const counter = plain("counter");

/** Buckets become cumulative here; samples in the order of prometheus_client: buckets, count, sum. */
export const histogram: Constructor<HistogramSnapshot> = (refresh, name, help, read) => ({
  name,
  help,
  type: "histogram",
  refresh,
  samples: (snapshot, identity) =>
    read(snapshot, identity).flatMap(([labels, { bounds, buckets, sum, count }]) => {
      let below = 0;
      const cumulative = buckets.map((bucket, index) => {
        below += bucket;
        const le = bounds[index] ?? Number.POSITIVE_INFINITY;
        return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below };
      });
      return [
        ...cumulative,
        { metricName: `${name}_count`, labels, value: count },
        { metricName: `${name}_sum`, labels, value: sum },
      ];
    }),
});

/** prometheus_client's second family of a counter or histogram: when each of its series came to be, as a gauge. */
export function withCreated(rows: readonly Row[]): readonly Row[] {
  return rows.flatMap((row) => {
    if (row.type === "gauge") return [row];
    const suffix = row.type === "counter" ? /_total$/ : /$/;
    const created: Row = {
      ...row,
      name: row.name.replace(suffix, "_created"),
      type: "gauge",
      samples: (snapshot, identity) =>
        row
          .samples(snapshot, identity)
          .filter(({ metricName }) => metricName === undefined || metricName === `${row.name}_count`)
          .map(({ labels }) => ({ labels, value: identity.startedS })),
    };
    return [row, created];
  });
}

/**
 * Puts a table into a registry. `held` gives the copy that a refresh class shows; all families of one answer must see
 * the same ones. A name twice throws.
 */
export function register(
  table: readonly Row[],
  registry: Registry,
  held: (refresh: Refresh) => Snapshot,
  identity: Identity,
): void {
  for (const { samples, refresh, ...family } of table) {
    const get = () => ({ ...family, aggregator: "sum", values: samples(held(refresh), identity) });
    registry.registerMetric({ ...family, get } as unknown as Metric<string>);
  }
}

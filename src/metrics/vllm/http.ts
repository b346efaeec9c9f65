/**
 * Metrics of vLLM's HTTP middleware: prometheus-fastapi-instrumentator 8.1 `metrics.py`, `default`. A series appears
 * with the first request that has its labels, and series keep this order. Only the histogram without labels exists from
 * the start.
 */

import type { HttpSnapshot } from "../../engine/interface/types.ts";
import { HTTP_WIDTH, HttpWord, ROUTE_SECONDS, STATUS_CLASSES } from "../rows/http-counts.ts";
import type { Identity } from "../rows/identity.ts";
import { counter, histogram, type Proof, type Row, type Series, summary } from "../rows/table.ts";
import type { Labels } from "../rows/text.ts";

const BY_REQUESTS: Proof = { moves: "test/conformance/metrics-http.test.ts" };

/** A series that exists: time of its first answer in seconds of the engine's clock, and its numbers. */
interface Entry {
  readonly labels: Labels;
  readonly sinceS: number;
  /** Rows of the routes that belong to the series. */
  readonly rows: readonly ArrayLike<number>[];
}

/** Groups the routes by labels and returns the series, oldest first. Routes without answers have no series. */
function entries({ routes }: HttpSnapshot, { http }: Identity, labelsOf: (index: number) => Labels): Entry[] {
  const byLabels = new Map<string, { labels: Labels; sinceS: number; rows: ArrayLike<number>[] }>();
  for (let index = 0; index < http.length; index++) {
    const row = Array.from({ length: HTTP_WIDTH }, (_, word) => routes[index * HTTP_WIDTH + word]!);
    const times = row.slice(HttpWord.since, HttpWord.since + STATUS_CLASSES.length).filter((time) => time > 0);
    if (times.length === 0) continue;
    const labels = labelsOf(index);
    const key = JSON.stringify(labels);
    const entry = byLabels.get(key) ?? { labels, sinceS: Number.POSITIVE_INFINITY, rows: [] };
    entry.rows.push(row);
    entry.sinceS = Math.min(entry.sinceS, ...times);
    byLabels.set(key, entry);
  }
  return [...byLabels.values()].sort((a, b) => a.sinceS - b.sinceS);
}

const sum = (rows: readonly ArrayLike<number>[], word: number) => rows.reduce((total, row) => total + row[word]!, 0);
const answers = (rows: readonly ArrayLike<number>[]) =>
  STATUS_CLASSES.reduce((total, _, index) => total + sum(rows, HttpWord.answers + index), 0);

const handlerOf =
  ({ http }: Identity) =>
  (index: number) => ({ handler: http[index]!.handler });

function byHandler(http: HttpSnapshot, identity: Identity): Entry[] {
  return entries(http, identity, handlerOf(identity));
}

/** Groups by handler, method and class of status. */
function byStatus(http: HttpSnapshot, identity: Identity): (readonly [Labels, number, number])[] {
  return entries(http, identity, (index) => ({ ...identity.http[index]! }))
    .flatMap(({ labels, rows }) =>
      STATUS_CLASSES.map((status, index) => {
        const [count, sinceS] = [sum(rows, HttpWord.answers + index), sum(rows, HttpWord.since + index)];
        return [{ ...labels, status }, count, sinceS] as const;
      }),
    )
    .filter(([, count]) => count > 0)
    .sort((a, b) => a[2] - b[2]);
}

function created(
  row: Row,
  series: (http: HttpSnapshot, identity: Identity) => readonly (readonly [Labels, number])[],
): Row {
  return {
    ...row,
    created: ({ front }, identity) =>
      series(front.http, identity).map(([labels, sinceS]) => ({ labels, value: identity.startedS + sinceS })),
  };
}
const sinceOf = (list: readonly Entry[]) => list.map(({ labels, sinceS }) => [labels, sinceS] as const);

const size = (name: string, what: string, word: number) =>
  created(
    summary(
      "now",
      name,
      `Content length of ${what} by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. `,
      ({ front }, identity) =>
        byHandler(front.http, identity).map(({ labels, rows }) => [
          labels,
          { count: answers(rows), sum: sum(rows, word), quantiles: [] },
        ]),
      BY_REQUESTS,
    ),
    (http, identity) => sinceOf(byHandler(http, identity)),
  );

export const http: readonly Row[] = [
  created(
    counter(
      "now",
      "http_requests_total",
      "Total number of requests by method, status and handler.",
      ({ front }, identity) => byStatus(front.http, identity).map(([labels, count]): Series<number> => [labels, count]),
      BY_REQUESTS,
    ),
    (http, identity) => byStatus(http, identity).map(([labels, , sinceS]) => [labels, sinceS]),
  ),
  size("http_request_size_bytes", "incoming requests", HttpWord.requestBytes),
  size("http_response_size_bytes", "outgoing responses", HttpWord.responseBytes),
  created(
    histogram(
      "now",
      "http_request_duration_highr_seconds",
      "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
      ({ front }) => [[{}, front.http.duration]],
      BY_REQUESTS,
    ),
    () => [[{}, 0]],
  ),
  created(
    histogram(
      "now",
      "http_request_duration_seconds",
      "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ",
      ({ front }, identity) =>
        entries(front.http, identity, (index) => ({ ...identity.http[index]! })).map(({ labels, rows }) => {
          const buckets = Array.from({ length: ROUTE_SECONDS.length + 1 }, (_, i) => sum(rows, HttpWord.buckets + i));
          return [labels, { bounds: ROUTE_SECONDS, buckets, sum: sum(rows, HttpWord.seconds), count: answers(rows) }];
        }),
      BY_REQUESTS,
    ),
    (http, identity) => sinceOf(entries(http, identity, (index) => ({ ...identity.http[index]! }))),
  ),
];

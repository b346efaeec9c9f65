/**
 * Reads per-request measurements of any load tool: CSV with a header, or JSON Lines. Columns are found by the names that tools
 * use. A unit in a column's name overrides the default unit.
 */
import { jsonObjectIn } from "../../base/json-object.ts";
import { TraceFile } from "../../workloads/lines.ts";
import { TraceError } from "../../workloads/trace.ts";
import type { RequestMeasurement } from "./true-times.ts";

/** Maximum number of requests of a file. */
export const MEASURED_MOST = 1_000_000;

const MS_PER = { s: 1000, ms: 1, us: 1e-3, ns: 1e-6 } as const;
export type MeasuredUnit = keyof typeof MS_PER;
export const MEASURED_UNITS = Object.keys(MS_PER) as MeasuredUnit[];

const ID = /^(x[_-]?)?(request[_-]?)?id$/;
const METRICS: readonly (readonly [keyof RequestMeasurement, RegExp])[] = [
  ["ttft", /^(ttft|time_to_first_token|first_token_latency)(?:_(s|ms|us|ns))?$/],
  ["e2e", /^(e2e|e2el|e2e_latency|end_to_end_latency|latency|request_latency)(?:_(s|ms|us|ns))?$/],
];
const EXPECTED =
  "a request's id with ttft or e2e (or both), as the CSV columns request_id,ttft_ms,e2e_ms or as JSON with these names";

interface Columns {
  readonly id: string;
  readonly metrics: readonly (readonly [metric: keyof RequestMeasurement, name: string, msPer: number])[];
}

/** Reads a file. Returns the measurements by request id. Throws a `TraceError` that names the first bad line. */
export function readMeasured(path: string, unit: MeasuredUnit, most = MEASURED_MOST): Map<string, RequestMeasurement> {
  const measurements = new Map<string, RequestMeasurement>();
  const file = new TraceFile(path);
  try {
    let header: readonly string[] | null = null;
    for (const { number, text } of file.lines()) {
      const line = text ?? "";
      if (header === null && !line.startsWith("{")) {
        header = cellsOf(line);
        if (columnsOf(header, unit) === null) throw new TraceError(`${path}:${number}: expected ${EXPECTED}`);
        continue;
      }
      const row = header === null ? jsonObjectIn(line) : objectOf(header, cellsOf(line));
      const columns = row && columnsOf(Object.keys(row), unit);
      if (row === null || !columns) throw new TraceError(`${path}:${number}: expected ${EXPECTED}`);
      const measurement: RequestMeasurement = {};
      for (const [metric, name, msPer] of columns.metrics) {
        const value = row[name] === "" || row[name] === null ? Number.NaN : Number(row[name]);
        if (Number.isFinite(value)) measurement[metric] = value * msPer;
      }
      if (measurements.size >= most) throw new TraceError(`${path}:${number}: more than ${most} requests`);
      measurements.set(String(row[columns.id]), measurement);
    }
  } finally {
    file.close();
  }
  if (measurements.size === 0) throw new TraceError(`${path}: no requests; expected ${EXPECTED}`);
  return measurements;
}

/** Finds the columns. Null if there is no id, or no metric. */
function columnsOf(names: readonly string[], unit: MeasuredUnit): Columns | null {
  const id = names.find((name) => ID.test(plain(name)));
  const metrics = METRICS.flatMap(([metric, form]) => {
    const name = names.find((candidate) => form.test(plain(candidate)));
    if (name === undefined) return [];
    const ending = form.exec(plain(name))![2] as MeasuredUnit | undefined;
    return [[metric, name, MS_PER[ending ?? unit]] as const];
  });
  return id === undefined || metrics.length === 0 ? null : { id, metrics };
}

/** Normalises a column name: `requestId`, `Request ID` and `request_id` are equal, as are `TTFT (ms)` and `ttft_ms`. */
const plain = (name: string): string =>
  name
    .trim()
    .replace(/([a-z])([A-Z])/g, "$1_$2")
    .replace(/[\s()[\]-]+/g, "_")
    .replace(/_$/, "")
    .toLowerCase();

function objectOf(header: readonly string[], cells: readonly string[]): Record<string, unknown> | null {
  if (cells.length !== header.length) return null;
  return Object.fromEntries(header.map((name, at) => [name, cells[at]]));
}

/** Splits a CSV line (RFC 4180). A quoted cell may have commas and doubled quotes, but no line end. */
function cellsOf(line: string): string[] {
  const cells: string[] = [];
  for (const [, quoted, bare] of line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g))
    cells.push(quoted === undefined ? (bare ?? "").trim() : quoted.replaceAll('""', '"'));
  return cells;
}

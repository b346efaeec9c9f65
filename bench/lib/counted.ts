/** Adds up the truth logs of several workers per engine, so that they can be compared with the metrics. */
import { existsSync, readFileSync } from "node:fs";
import type { DiedLine, HeaderLine, RequestLine, TruthLine } from "../../src/truth/schema.ts";
import { fileOfWorker } from "../../src/truth/worker-file.ts";

/** The counters of one engine that both the logs and the metrics have. */
const COUNTERS = ["stop", "length", "outputTokens", "promptTokens", "cachedTokens", "steps"] as const;
export type EngineCounters = Readonly<Record<(typeof COUNTERS)[number], number>>;

/** One worker process from its start to its end. A killed worker is followed by another life with the same number. */
export interface Life {
  readonly worker: number;
  /** Null if the process ended in order. */
  readonly died: DiedLine | null;
  readonly rows: readonly RequestLine[];
  /** Number of requests that ended because their clients left. vLLM does not report it per engine. */
  readonly aborts: number;
  /** Sums over the rows of each engine. */
  readonly written: ReadonlyMap<number, EngineCounters>;
  /** Counters of each engine: sums over its rows, or the log's last line if the process was killed. */
  readonly counted: ReadonlyMap<number, EngineCounters>;
}

/** Adds `more` to the sums of an engine. */
function addTo(engines: Map<number, EngineCounters>, engine: number, more: Partial<EngineCounters>): void {
  const before = engines.get(engine);
  const sums = COUNTERS.map((name) => [name, (before?.[name] ?? 0) + (more[name] ?? 0)]);
  engines.set(engine, Object.fromEntries(sums) as EngineCounters);
}

/** Returns the lives of all workers, in no order. Throws if a log that was closed in order has dropped a row. */
export function livesOf(file: string, workers: number): Life[] {
  return Array.from({ length: workers }, (_, worker) => {
    const name = fileOfWorker(file, worker);
    const files = [name, ...Array.from({ length: 99 }, (_, age) => `${name}.${age + 1}`)];
    return files.filter((path) => existsSync(path)).map((path) => lifeOf(path, worker));
  }).flat();
}

function lifeOf(file: string, worker: number): Life {
  const text = readFileSync(file, "latin1").trimEnd();
  const lines = text.split("\n").map((line) => JSON.parse(line) as TruthLine);
  const header = lines[0] as HeaderLine;
  const last = lines.at(-1)!;
  if (header.type !== "header" || header.file !== 0 || header.worker !== worker)
    throw new Error(`${file}: wrong header: ${JSON.stringify(lines[0])}`);
  if (last.type === "end" && Object.values(last.dropped).some((count) => count > 0))
    throw new Error(`${file}: the log has dropped rows`);
  if (last.type !== "end" && last.type !== "died") throw new Error(`${file}: the log has no line "end" or "died"`);
  const rows = lines.filter((line) => line.type === "request");
  const written = new Map<number, EngineCounters>();
  for (const line of lines) {
    if (line.type === "step" && line.dueUs !== null) addTo(written, line.engine, { steps: 1 });
    if (line.type !== "request" || line.reason === null) continue;
    addTo(written, line.engine, {
      ...(line.reason === "stop" || line.reason === "length" ? { [line.reason]: 1 } : {}),
      outputTokens: line.outputTokens,
      // The metrics count the prompt with the first token.
      ...(line.prefillEndUs === null ? {} : { promptTokens: line.promptTokens, cachedTokens: line.cachedTokens }),
    });
  }
  if (last.type === "end") {
    const aborts = rows.filter(({ reason }) => reason === "abort").length;
    return { worker, died: null, rows, aborts, written, counted: written };
  }
  const counted = new Map<number, EngineCounters>();
  for (const { engine, finished, ...rest } of last.engines) addTo(counted, engine, { ...rest, ...finished });
  return { worker, died: last, rows, aborts: last.outcomes.abort, written, counted };
}

/** Returns the sums of the counted values over all lives, by engine. */
export function totalsOf(lives: readonly Life[]): Map<number, EngineCounters> {
  const totals = new Map<number, EngineCounters>();
  for (const life of lives) for (const [engine, counted] of life.counted) addTo(totals, engine, counted);
  return totals;
}

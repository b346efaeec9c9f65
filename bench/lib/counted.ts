/** Adds up the truth logs of several workers per engine, so that a bench can compare them with the metrics. */
import { existsSync, readFileSync } from "node:fs";
import type { DiedLine, HeaderLine, RequestLine, TruthLine } from "../../src/truth/schema.ts";
import { fileOfWorker } from "../../src/truth/worker-file.ts";

/** The counters of one engine that both the logs and the metrics have. */
export interface EngineCounters {
  stop: number;
  length: number;
  outputTokens: number;
  promptTokens: number;
  cachedTokens: number;
  steps: number;
}

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

const NOTHING: EngineCounters = { stop: 0, length: 0, outputTokens: 0, promptTokens: 0, cachedTokens: 0, steps: 0 };

export function plus(a: EngineCounters, b: EngineCounters): EngineCounters {
  const names = Object.keys(NOTHING) as (keyof EngineCounters)[];
  return Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as EngineCounters;
}

/** Returns the lives of all workers, in no order. Throws if a log that was closed in order has dropped a row. */
export function livesOf(file: string, workers: number): Life[] {
  return Array.from({ length: workers }, (_, worker) => worker).flatMap((worker) => {
    const name = fileOfWorker(file, worker);
    const files = [name, ...Array.from({ length: 99 }, (_, age) => `${name}.${age + 1}`)].filter((path) =>
      existsSync(path),
    );
    return files.map((path) => lifeOf(path, worker));
  });
}

function lifeOf(file: string, worker: number): Life {
  const lines = readFileSync(file, "latin1")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as TruthLine);
  const header = lines[0] as HeaderLine;
  const last = lines.at(-1)!;
  if (header.type !== "header" || header.file !== 0 || header.worker !== worker)
    throw new Error(`${file}: wrong header: ${JSON.stringify(lines[0])}`);
  if (last.type === "end" && Object.values(last.dropped).some((count) => count > 0))
    throw new Error(`${file}: the log has dropped rows`);
  if (last.type !== "end" && last.type !== "died") throw new Error(`${file}: the log has no line "end" or "died"`);
  const rows = lines.filter((line) => line.type === "request");
  const written = new Map<number, EngineCounters>();
  const add = (engine: number, more: Partial<EngineCounters>) =>
    written.set(engine, plus(written.get(engine) ?? NOTHING, { ...NOTHING, ...more }));
  for (const line of lines) {
    if (line.type === "step" && line.dueUs !== null) add(line.engine, { steps: 1 });
    if (line.type !== "request" || line.reason === null) continue;
    add(line.engine, {
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
  const counted = last.engines.map(({ engine, finished, ...rest }) => {
    const { stop, length } = finished;
    const { outputTokens, promptTokens, cachedTokens, steps } = rest;
    return [engine, { stop, length, outputTokens, promptTokens, cachedTokens, steps }] as const;
  });
  return { worker, died: last, rows, aborts: last.outcomes.abort, written, counted: new Map(counted) };
}

/** Returns the sums over all lives, by engine. */
export function totalsOf(lives: readonly Life[], which: "written" | "counted"): Map<number, EngineCounters> {
  const totals = new Map<number, EngineCounters>();
  for (const life of lives) {
    for (const [engine, counted] of life[which]) totals.set(engine, plus(totals.get(engine) ?? NOTHING, counted));
  }
  return totals;
}

/** What do the truth logs of several workers add up to, and what do the metrics say? Per engine, to the unit. */
import { existsSync, readFileSync } from "node:fs";
import type { DiedLine, HeaderLine, RequestLine, TruthLine } from "../../src/truth/schema.ts";
import { fileOfWorker } from "../../src/truth/worker-file.ts";

/** Counters that both sides have, of one engine. */
export interface Counted {
  stop: number;
  length: number;
  outputTokens: number;
  promptTokens: number;
  cachedTokens: number;
  steps: number;
}

/** One process at a place: from its start to its end. */
export interface Life {
  readonly worker: number;
  /** Null: it ended in order. */
  readonly died: DiedLine | null;
  readonly rows: readonly RequestLine[];
  /** Requests that ended because their clients left; vLLM does not show them per engine. */
  readonly aborts: number;
  /** By engine: what its rows say. */
  readonly written: ReadonlyMap<number, Counted>;
  /** By engine: what it counted. Its rows, or where it was killed what the log's last line says. */
  readonly counted: ReadonlyMap<number, Counted>;
}

const NOTHING: Counted = { stop: 0, length: 0, outputTokens: 0, promptTokens: 0, cachedTokens: 0, steps: 0 };

export function plus(a: Counted, b: Counted): Counted {
  const names = Object.keys(NOTHING) as (keyof Counted)[];
  return Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as Counted;
}

/** All lives at all places, in no order. Throws where a log that was closed in order lost a row. */
export function livesOf(file: string, workers: number): Life[] {
  return Array.from({ length: workers }, (_, worker) => worker).flatMap((worker) => {
    const name = fileOfWorker(file, worker);
    const files = [name, ...Array.from({ length: 99 }, (_, age) => `${name}.${age + 1}`)].filter((one) =>
      existsSync(one),
    );
    return files.map((one) => lifeOf(one, worker));
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
    throw new Error(`${file}: ${lines[0]}`);
  if (last.type === "end" && Object.values(last.dropped).some((count) => count > 0))
    throw new Error(`${file}: dropped`);
  if (last.type !== "end" && last.type !== "died") throw new Error(`${file}: no last line`);
  const rows = lines.filter((line) => line.type === "request");
  const written = new Map<number, Counted>();
  const add = (engine: number, more: Partial<Counted>) =>
    written.set(engine, plus(written.get(engine) ?? NOTHING, { ...NOTHING, ...more }));
  for (const line of lines) {
    if (line.type === "step" && line.dueUs !== null) add(line.engine, { steps: 1 });
    if (line.type !== "request" || line.reason === null) continue;
    add(line.engine, {
      ...(line.reason === "stop" || line.reason === "length" ? { [line.reason]: 1 } : {}),
      outputTokens: line.outputTokens,
      // Counted with the first token.
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

/** By engine, over all lives. */
export function totalsOf(lives: readonly Life[], which: "written" | "counted"): Map<number, Counted> {
  const totals = new Map<number, Counted>();
  for (const life of lives) {
    for (const [engine, counted] of life[which]) totals.set(engine, plus(totals.get(engine) ?? NOTHING, counted));
  }
  return totals;
}

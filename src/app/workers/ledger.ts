/** The parent's side of the shared pages: creates them, and keeps the counters of workers that died. */
import { join } from "node:path";
import type { EngineSnapshot, Snapshot } from "../../engine/interface/types.ts";
import { openPage, type Pages, pageLength, retire, shownBy } from "../../metrics/rows/shared.ts";
import { createPage, type SharedPage } from "../../metrics/rows/shared-page.ts";
import { type DiedEngine, type DiedLine, REASONS, type ReasonName } from "../../truth/schema.ts";
import { closeDead } from "../../truth/worker-file.ts";
import type { Death } from "./supervisor.ts";

export class Ledger {
  readonly pages: Pages;
  readonly #open: readonly SharedPage[];
  /** Snapshot of each worker's page at the end of its last process. */
  readonly #before: Snapshot[];

  /** Creates the pages in an empty folder. `truthOf` returns the path of a worker's truth log; null: no log. */
  constructor(
    readonly folder: string,
    workers: number,
    contents: Omit<Pages, "files">,
    private readonly truthOf: (worker: number) => string | null,
  ) {
    const files = Array.from({ length: workers }, (_, worker) => join(folder, `worker-${worker}`));
    this.pages = { files, ...contents };
    for (const file of files) createPage(file, pageLength(this.pages));
    this.#open = files.map((_, worker) => openPage(this.pages, worker));
    this.#before = this.#open.map((page) => shownBy(page, this.pages));
  }

  /** Accounts for a worker whose process has ended. Returns a text about lost requests, "" if none were lost. */
  retire(worker: number, { exitCode, signal, orderly }: Death): string {
    const page = this.#open[worker]!;
    const shown = shownBy(page, this.pages);
    const before = this.#before[worker]!;
    retire(page, this.pages);
    this.#before[worker] = shownBy(page, this.pages);
    if (orderly) return "";
    const first = worker * this.pages.shape.engines;
    const engines = shown.engines.map((engine, rank) => lifeOf(engine, before.engines[rank]!, first + rank));
    const outcomes = difference(shown.front.outcomes, before.front.outcomes);
    const file = this.truthOf(worker);
    const [running, waiting] = [sum(engines, "running"), sum(engines, "waiting")];
    const lost = running + waiting > 0 ? `; ${running} running and ${waiting} waiting requests died with it` : "";
    return lost + (file === null ? "" : close(file, { type: "died", worker, exitCode, signal, engines, outcomes }));
  }
}

function close(file: string, died: DiedLine): string {
  try {
    closeDead(file, died);
    return "";
  } catch (error) {
    return `; its truth log ${file} has no last line (${(error as { code?: string }).code ?? String(error)})`;
  }
}

/** Returns the numbers of one process: its counts, and its gauges at its end. */
function lifeOf(shown: EngineSnapshot, before: EngineSnapshot, engine: number): DiedEngine {
  const since = (key: "steps" | "promptTokens" | "promptTokensCached" | "generationTokens" | "preemptions") =>
    shown[key] - before[key];
  const finished = REASONS.map((reason, i) => [reason, shown.finished[i]! - before.finished[i]!]);
  return {
    engine,
    steps: since("steps"),
    finished: Object.fromEntries(finished) as Record<ReasonName, number>,
    promptTokens: since("promptTokens"),
    cachedTokens: since("promptTokensCached"),
    outputTokens: since("generationTokens"),
    preemptions: since("preemptions"),
    running: shown.running,
    waiting: shown.waiting + shown.deferred,
  };
}

function difference<K extends string>(after: Readonly<Record<K, number>>, before: Readonly<Record<K, number>>) {
  const names = Object.keys(after) as K[];
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as Record<K, number>;
}

function sum(engines: readonly DiedEngine[], key: "running" | "waiting"): number {
  return engines.reduce((total, engine) => total + engine[key], 0);
}

/** Where and of what was measured? One JSON line per run of a bench, in `bench/results/<bench>.jsonl`. */
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { has, text } from "./options.ts";

export const root = new URL("../../", import.meta.url).pathname;
/** The option that names another folder for results: a comparison reads its runs there. */
export const RESULTS = "--results";
export const results = text(RESULTS, `${root}bench/results/`);

export function git(...words: string[]): string {
  return Bun.spawnSync(["git", ...words], { cwd: root, stderr: "ignore" })
    .stdout.toString()
    .trim();
}

function loadAverage(): number {
  return Number(readFileSync("/proc/loadavg", "utf8").split(" ")[0]);
}

const loadBefore = loadAverage();

/** When, of which commit and on what machine is this measured? */
export function provenance() {
  return {
    date: new Date().toISOString(),
    commit: git("rev-parse", "--short", "HEAD"),
    realtime: has("--realtime"),
    changed: git("status", "--porcelain", "--", "src", "assembly") !== "",
    bun: Bun.version,
    machine: {
      cpu: cpus()[0]?.model ?? "?",
      cores: availableParallelism(),
      kernel: release(),
      loadBefore,
    },
  };
}

/** Appends the figures with machine, commit and date. `--no-save` leaves the file alone. */
export function save(bench: string, figures: Readonly<Record<string, unknown>>): void {
  if (has("--no-save")) return;
  const line = { bench, ...provenance(), ...figures };
  mkdirSync(results, { recursive: true });
  appendFileSync(`${results}${bench}.jsonl`, `${JSON.stringify(line)}\n`);
}

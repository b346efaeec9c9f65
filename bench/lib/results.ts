/** Saves the result of each run of a bench as a JSON line in `bench/results/<bench>.jsonl`, with commit and machine. */
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { addLine } from "./kept-lines.ts";
import { has, text } from "./options.ts";

export const root = new URL("../../", import.meta.url).pathname;
/** Option for another folder of results, from which a comparison with `--base` reads. */
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

/** Returns the date, commit and machine of this run. */
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

/** Names the measurement if options select only a part of the bench, or another one. "": the usual measurement. */
function kindOfRun(): string {
  const parts = [text("--only", ""), text("--part", "")].filter((part) => part !== "");
  const switches = ["--rows", "--quick", "--base"].filter((option) => has(option)).map((option) => option.slice(2));
  return [...parts, ...switches].join(" ");
}

/** Numbers by name. The names that every line has are excluded. */
type Figures = Readonly<Record<string, unknown>> & {
  readonly [Name in "bench" | "kind" | keyof ReturnType<typeof provenance>]?: never;
};

/** Returns the line of a run. Throws if a number has a name that every line has, because it would replace that field. */
export function lineOf(bench: string, figures: Figures): string {
  const common = { bench, kind: kindOfRun(), ...provenance() };
  const twice = Object.keys(figures).filter((name) => name in common);
  if (twice.length > 0) throw new Error(`${bench}: every line has "${twice.join('", "')}" already; rename the number`);
  return JSON.stringify({ ...common, ...figures });
}

/**
 * Adds the numbers with machine, commit and date to the bench's file, which keeps the last three lines per machine and kind.
 * With `--no-save` does nothing.
 */
export function save(bench: string, figures: Figures): void {
  if (!has("--no-save")) addLine(`${results}${bench}.jsonl`, lineOf(bench, figures));
}

/** Where and of what was measured? One JSON line per run of a bench, in `bench/results/<bench>.jsonl`. */
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { addLine } from "./kept-lines.ts";
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

/** Names the measurement if options select only a part of the bench, or another one. "": the usual measurement. */
function kindOfRun(): string {
  const parts = [text("--only", ""), text("--part", "")].filter((part) => part !== "");
  const switches = ["--rows", "--quick", "--base"].filter((option) => has(option)).map((option) => option.slice(2));
  return [...parts, ...switches].join(" ");
}

/** Figures by name; none has the name of what each line says. */
type Figures = Readonly<Record<string, unknown>> & {
  readonly [Name in "bench" | "kind" | keyof ReturnType<typeof provenance>]?: never;
};

/** A bench's line. A figure with the name of what each line says would take its place: that is refused. */
export function lineOf(bench: string, figures: Figures): string {
  const common = { bench, kind: kindOfRun(), ...provenance() };
  const twice = Object.keys(figures).filter((name) => name in common);
  if (twice.length > 0) throw new Error(`${bench}: each line has a "${twice.join('", "')}" already; rename the figure`);
  return JSON.stringify({ ...common, ...figures });
}

/**
 * Adds the figures with machine, commit and date to the bench's file, which keeps the last three lines per machine and kind.
 * `--no-save` leaves the file alone.
 */
export function save(bench: string, figures: Figures): void {
  if (!has("--no-save")) addLine(`${results}${bench}.jsonl`, lineOf(bench, figures));
}

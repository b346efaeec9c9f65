/** Where and of what was measured? One JSON line per run of a bench, in `bench/results/<bench>.jsonl`. */
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { has } from "./options.ts";

export const root = new URL("../../", import.meta.url).pathname;

function git(...words: string[]): string {
  return Bun.spawnSync(["git", ...words], { cwd: root, stderr: "ignore" })
    .stdout.toString()
    .trim();
}

function loadAverage(): number {
  return Number(readFileSync("/proc/loadavg", "utf8").split(" ")[0]);
}

const loadBefore = loadAverage();

/** What a line says besides the figures. */
const about = (bench: string) => ({
  bench,
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
});

/** Figures by name; none has the name of what each line says. */
type Figures = Readonly<Record<string, unknown>> & { readonly [Name in keyof ReturnType<typeof about>]?: never };

/** A bench's line. A figure with the name of what each line says would take its place: that is refused. */
export function lineOf(bench: string, figures: Figures): string {
  const common = about(bench);
  const twice = Object.keys(figures).filter((name) => name in common);
  if (twice.length > 0) throw new Error(`${bench}: each line has a "${twice.join('", "')}" already; rename the figure`);
  return JSON.stringify({ ...common, ...figures });
}

/** Appends the figures with machine, commit and date. `--no-save` leaves the file alone. */
export function save(bench: string, figures: Figures): void {
  if (has("--no-save")) return;
  mkdirSync(`${root}bench/results`, { recursive: true });
  appendFileSync(`${root}bench/results/${bench}.jsonl`, `${lineOf(bench, figures)}\n`);
}

/** Reads the command line of a bench, prints its tables and bounds, and saves each run as a line of JSON with its machine. */
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { addLine } from "./kept-lines.ts";

const argv = process.argv.slice(2);

export function has(name: string): boolean {
  return argv.includes(name);
}

export function text(name: string, fallback: string): string {
  const at = argv.indexOf(name);
  return at < 0 ? fallback : (argv[at + 1] ?? fallback);
}

export function number(name: string, fallback: number): number {
  const value = Number(text(name, String(fallback)));
  if (!Number.isFinite(value)) throw new Error(`${name}: must be a number`);
  return value;
}

type Value = number | string | boolean;
/** The type of each option: number, string or boolean, like its default. */
type Options<D> = {
  readonly [Name in keyof D]: D[Name] extends number ? number : D[Name] extends string ? string : boolean;
};

/**
 * Returns the values of the bench's options, by name without dashes. `defaults` has the value of each if it is not given; false
 * stands for an option without a value. `others` are the options that shared code reads, such as `--realtime`. Ends the bench if
 * the command line has another option, because a typing error must not measure something else.
 */
export function options<D extends Readonly<Record<string, Value>>>(defaults: D, others: readonly string[] = []) {
  const names = [...Object.keys(defaults).map((name) => `--${name}`), ...others, "--no-save", "--results"];
  const unknown = argv.filter((word) => word.startsWith("--") && !names.includes(word));
  if (unknown.length > 0) {
    console.error(`unknown options: ${unknown.join(" ")}; accepted are ${names.join(" ")}`);
    process.exit(2);
  }
  const read = (name: string, fallback: Value) => {
    if (typeof fallback === "boolean") return has(name);
    return typeof fallback === "number" ? number(name, fallback) : text(name, fallback);
  };
  const values = Object.entries(defaults).map(([name, fallback]) => [name, read(`--${name}`, fallback)]);
  return Object.fromEntries(values) as Options<D>;
}

/** Prints a line that the next call replaces. Prints nothing if standard error is not a terminal. */
export function progress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
}

/** Prints a heading and rows of cells. Numbers are aligned to the right. */
export function table(heading: string, rows: readonly (readonly (string | number)[])[]): void {
  progress("");
  const cells = rows.map((row) => row.map((cell) => (typeof cell === "number" ? figure(cell) : cell)));
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((row) => Bun.stringWidth(row[column] ?? ""))));
  console.log(`\n${heading}`);
  for (const [i, row] of cells.entries()) {
    const line = row.map((cell, column) => {
      const room = " ".repeat(widths[column]! - Bun.stringWidth(cell));
      return typeof rows[i]![column] === "number" || (i === 0 && column > 0) ? room + cell : cell + room;
    });
    console.log(`  ${line.join("  ").trimEnd()}`);
  }
}

/** Formats a number: integers whole, other numbers with about three significant digits. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** A figure, its bound, and the unit of both. The bound is the largest permitted value. */
type Bar = readonly [name: string, value: number, limit: number, unit: string];

/** Returns a line with a value, its bound, and whether the bound holds. */
export function bar(...[name, value, limit, unit]: Bar): string {
  return `${value <= limit ? "holds" : "MISSED"}  ${name}: ${figure(value)} ${unit} (at most ${figure(limit)})`;
}

/** Prints a line per bound. Returns true if all hold. */
export function bars(...all: readonly Bar[]): boolean {
  for (const each of all) note(bar(...each));
  return all.every(([, value, limit]) => value <= limit);
}

/** Prints a line below a table. */
export const note = (line: string): void => console.log(`  ${line}`);

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

/** The results of a run, by name. A name that every line has, such as `date`, is a type error. */
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

/**
 * Adds a line to a file of results and drops the oldest ones: at most three lines remain per machine and kind. Each line
 * stays in the repository's history, so the file needs only the lines that someone compares with. The lines of one
 * file differ in `kind` if options of the bench select what it measures. No `kind` counts as "", the usual measurement.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const KEPT = 3;

interface ResultLine {
  readonly machine: { readonly cpu: string; readonly cores: number };
  readonly kind?: string;
}

/** Adds the line, without a line break at its end, as the last one. Creates the file and its folder if they are missing. */
export function addLine(file: string, line: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const before = existsSync(file) ? readFileSync(file, "utf8") : "";
  writeFileSync(file, newest(`${before}${line}\n`));
}

/** Returns the newest line, or undefined if the file is missing or empty. The number of lines does not show that one was added. */
export function lastLine(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").at(-2) : undefined;
}

/** Returns the text without the lines that are followed by three or more of the same machine and kind. */
export function newest(text: string): string {
  const counts = new Map<string, number>();
  const isKept = (line: string): boolean => {
    const { machine, kind = "" } = JSON.parse(line) as ResultLine;
    const key = JSON.stringify([machine.cpu, machine.cores, kind]);
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    return count <= KEPT;
  };
  const lines = text.split("\n").filter((line) => line !== "");
  return lines
    .reverse()
    .filter(isKept)
    .reverse()
    .map((line) => `${line}\n`)
    .join("");
}

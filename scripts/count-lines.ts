/**
 * Counts lines of code: `bun scripts/count-lines.ts [FOLDER] [--depth N]`, by default of `src`, with a line for each folder at
 * depth 3. A line counts if it has code: not if it is blank, or has only a comment. Lists of text, such as tables in template
 * literals, count. The figures of two commits compare only if the same formatter wrote both.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { tokensOf } from "./tokens.ts";

/** Returns the number of lines with code. Blank lines do not count, even in a text of several lines. */
export function codeLines(code: string): number {
  let line = 0;
  let counted = 0;
  let count = 0;
  let last = -1;
  for (const { text, start } of tokensOf(code).tokens) {
    line += code.slice(counted, start).split("\n").length - 1;
    counted = start;
    for (const [at, part] of text.split("\n").entries()) {
      if (part.trim() === "" || line + at === last) continue;
      last = line + at;
      count++;
    }
  }
  return count;
}

/** Adds up the lines of files by the first `depth` names of their paths. */
export function byFolder(files: readonly (readonly [path: string, lines: number])[], depth: number) {
  const sums = new Map<string, number>();
  for (const [path, lines] of files) {
    const folder = path.split("/").slice(0, -1).slice(0, depth).join("/");
    sums.set(folder, (sums.get(folder) ?? 0) + lines);
  }
  return [...sums].sort(([, a], [, b]) => b - a);
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { depth: { type: "string", default: "3" } },
  });
  const folder = (positionals[0] ?? "src").replace(/\/+$/, "");
  const root = new URL("../", import.meta.url).pathname;
  const paths = [...new Bun.Glob(`${folder}/**/*.ts`).scanSync({ cwd: root })].sort();
  const files = paths.map((path) => [path, codeLines(readFileSync(root + path, "utf8"))] as const);
  for (const [name, lines] of byFolder(files, Number(values.depth))) console.log(`${lines} ${name}`);
  console.log(`${files.reduce((sum, [, lines]) => sum + lines, 0)} lines of code in ${files.length} files`);
}

if (import.meta.main) main();

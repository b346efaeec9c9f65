/**
 * Makes the table of docs/internals/benches.md: a row for each benchmark, with the command that runs it and a description. The
 * description is the first sentence of the comment at the top of the benchmark's file.
 */
import { readFileSync } from "node:fs";
import { BENCHES } from "../bench.ts";
import { root } from "../test-lanes.ts";
import { markdownTable } from "./markdown.ts";

/**
 * Returns the first sentence of the comment at the top of a file. A colon ends it like a full stop. Throws if the file does not
 * begin with a comment.
 */
function firstSentence(path: string): string {
  const header = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(root + path, "utf8"))?.[1];
  if (header === undefined) throw new Error(`${path} does not begin with a comment`);
  return /^.*?[.:](?= |$)/.exec(header.replace(/\s*\n \*\s?|\s+/g, " ").trim())![0].replace(/:$/, ".");
}

/** Returns the table as Markdown, sorted by the names of the benchmarks. */
export function benchesTable(): string {
  const rows = Object.entries(BENCHES)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, path]) => [`\`bench ${name}\``, firstSentence(path)]);
  return markdownTable([["Command", "What it does"], ...rows]);
}

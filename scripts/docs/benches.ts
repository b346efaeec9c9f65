/** Lists all benchmarks for docs/internals/benches.md, with the first sentence of each one's file header. */
import { readFileSync } from "node:fs";
import { BENCHES } from "../bench.ts";
import { root } from "../test-lanes.ts";
import { markdownTable } from "./markdown.ts";

/** Returns the first sentence of a file's header. A colon ends it like a full stop. Throws if the file has no header. */
function firstSentence(path: string): string {
  const header = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(root + path, "utf8"))?.[1];
  if (header === undefined) throw new Error(`${path} does not begin with a comment`);
  return /^.*?[.:](?= |$)/.exec(header.replace(/\s*\n \*\s?|\s+/g, " ").trim())![0].replace(/:$/, ".");
}

/** Returns a table with a row per benchmark, as Markdown. */
export function benchesTable(): string {
  const rows = Object.entries(BENCHES)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, path]) => [`\`bench ${name}\``, firstSentence(path)]);
  return markdownTable([["Command", "What it does"], ...rows]);
}

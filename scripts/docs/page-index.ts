/** Lists all pages of the docs by group, with their titles, for docs/README.md. */
import { readdirSync, readFileSync } from "node:fs";

const docs = new URL("../../docs/", import.meta.url).pathname;

/** Pages of `docs/how-to/` by group. A page that no list names is in the group "How-to: run it". */
const HOW_TO: Readonly<Record<string, readonly string[]>> = {
  "How-to: answers": ["dataset", "fixtures", "lengths", "reasoning", "scripts", "structured-output", "tools"],
  "How-to: faults and limits": ["admission", "bug-modes", "faults", "record", "stress"],
  "How-to: measure": ["check", "fit-timing", "load", "prometheus", "property-tests", "replay"],
};

/** The page that a new reader should read first. Other pages are in alphabetical order. */
const FIRST = "first-stream.md";

/** Headings of the other folders, in the order of the index. */
const FOLDERS: Readonly<Record<string, string>> = {
  tutorial: "Tutorials",
  "how-to": "How-to: run it",
  servers: "Servers",
  reference: "Reference",
  explanation: "Explanation",
  internals: "Internals",
};

/** Returns the title of a page, which is its first line. */
const titleOf = (path: string) =>
  readFileSync(docs + path, "utf8")
    .split("\n")[0]!
    .replace(/^# /, "");

function group(heading: string, paths: readonly string[]): string {
  const rows = paths.map((path) => `| [${path.split("/")[1]}](${path}) | ${titleOf(path)} |`);
  return [`**${heading}**`, "", "| Page | Title |", "|---|---|", ...rows].join("\n");
}

/** Returns one table per group, as Markdown. */
export function pageIndex(): string {
  const grouped = new Set(Object.values(HOW_TO).flat());
  return Object.entries(FOLDERS)
    .flatMap(([folder, heading]) => {
      const pages = readdirSync(docs + folder)
        .filter((name) => name.endsWith(".md"))
        .sort((a, b) => Number(b === FIRST) - Number(a === FIRST) || (a < b ? -1 : 1));
      if (folder !== "how-to")
        return [
          group(
            heading,
            pages.map((name) => `${folder}/${name}`),
          ),
        ];
      const rest = pages.map((name) => name.slice(0, -".md".length)).filter((name) => !grouped.has(name));
      return Object.entries({ ...HOW_TO, [heading]: rest }).map(([title, names]) =>
        group(
          title,
          names.map((name) => `${folder}/${name}.md`),
        ),
      );
    })
    .join("\n\n");
}

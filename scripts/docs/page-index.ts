/** Lists all pages of the docs by group, with their titles, for docs/README.md. */
import { readdirSync, readFileSync } from "node:fs";
import { markdownTable } from "./markdown.ts";

const docs = new URL("../../docs/", import.meta.url).pathname;

type Group = readonly [heading: string, paths: readonly string[]];

export interface PageGroup {
  /** Heading of the group's table, for example "How-to: answers". */
  readonly heading: string;
  /** Pages with their titles. A path begins in `docs/`. */
  readonly pages: readonly { readonly path: string; readonly title: string }[];
}

const howTo = (heading: string, ...names: readonly string[]): Group => [
  `How-to: ${heading}`,
  names.map((name) => `how-to/${name}.md`),
];
/** Groups of pages in `docs/how-to/`. A page that no group names is in the group "How-to: run it". */
const HOW_TO = [
  howTo("answers", "dataset", "fixtures", "lengths", "reasoning", "scripts", "structured-output", "tools"),
  howTo("faults and limits", "admission", "bug-modes", "faults", "record", "stress"),
  howTo("measure", "check", "fit-timing", "kv-check", "load", "prometheus", "property-tests", "replay"),
];

/** The page that a new reader should read first. Other pages are in alphabetical order. */
const FIRST = "tutorial/first-stream.md";

/** Returns the paths of the pages in a folder of `docs/`. */
const pagesIn = (folder: string) =>
  readdirSync(docs + folder)
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`)
    .sort((a, b) => Number(b === FIRST) - Number(a === FIRST) || (a < b ? -1 : 1));

/** Returns the title of a page, which is its first line. */
const titleOf = (path: string) =>
  readFileSync(docs + path, "utf8")
    .split("\n")[0]!
    .slice("# ".length);

/** Returns all pages of the docs in their groups, in the order of docs/README.md. */
export function pageGroups(): PageGroup[] {
  const grouped = HOW_TO.flatMap(([, paths]) => paths);
  const groups: readonly Group[] = [
    ["Tutorials", pagesIn("tutorial")],
    ...HOW_TO,
    ["How-to: run it", pagesIn("how-to").filter((path) => !grouped.includes(path))],
    ["Servers", pagesIn("servers")],
    ["Reference", pagesIn("reference")],
    ["Explanation", pagesIn("explanation")],
    ["Internals", pagesIn("internals")],
  ];
  return groups.map(([heading, paths]) => ({
    heading,
    pages: paths.map((path) => ({ path, title: titleOf(path) })),
  }));
}

function groupTable({ heading, pages }: PageGroup): string {
  const rows = pages.map(({ path, title }) => [`[${path.split("/")[1]}](${path})`, title]);
  return `**${heading}**\n\n${markdownTable([["Page", "Title"], ...rows])}`;
}

/** Returns the list for docs/README.md as Markdown: for each group its heading and a table of its pages. */
export const pageIndex = (): string => pageGroups().map(groupTable).join("\n\n");

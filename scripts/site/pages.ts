/**
 * Lists the pages of the site and makes their Markdown from README, docs and changelog. Links lead to pages of the site, and
 * otherwise to the repository. Text between markers such as `<!-- laws -->` stays, the markers go.
 */
import { readFileSync } from "node:fs";
import { dirname, relative } from "node:path";
import { relinked, repositoryLink } from "../page-links.ts";
import { firstPage } from "./first-page.ts";

const root = new URL("../../", import.meta.url).pathname;
const read = (path: string) => readFileSync(root + path, "utf8");

export interface SitePage {
  /** Path of the page in the repository; null for the first page, which the site adds. */
  readonly source: string | null;
  /** Path of the page's Markdown in the site. Its address has the ending .html. */
  readonly path: string;
  readonly text: string;
}

/** Returns the path in the site of a page of the repository. Folders are opened by their README. */
const sitePath = (source: string) =>
  source.includes("/") ? source.replace(/\bREADME\.md$/, "index.md") : source.toLowerCase();

/** Paths, from the root of the repository, of the Markdown files that become pages of the site. */
const SOURCES: readonly string[] = [
  ...["README.md", "CHANGELOG.md"],
  ...[...new Bun.Glob("docs/**/*.md").scanSync(root)].sort(),
];

/** Paths of all pictures in `docs/`, which pages show. In the site, each picture has the same path. */
export const PICTURES: readonly string[] = [...new Bun.Glob("docs/**/*.{png,svg}").scanSync(root)].sort();

const MARKER = /^ *<!-- \/?[\w-]+ -->$/gm;

function staged(source: string): SitePage {
  const path = sitePath(source);
  const from = dirname(path);
  const linked = relinked(read(source), source, (target) => {
    const inside = SOURCES.includes(target) ? sitePath(target) : PICTURES.includes(target) ? target : null;
    if (inside === null) return repositoryLink(target);
    const address = relative(from, inside);
    return address.startsWith(".") ? address : `./${address}`;
  });
  return { source, path, text: linked.replace(MARKER, "") };
}

/** Returns all pages of the site. */
export function sitePages(): SitePage[] {
  const first = { source: null, path: "index.md", text: firstPage(read("README.md")) };
  return [first, ...SOURCES.map(staged)];
}

/** Finds and changes links in pages of Markdown, and derives anchors of headings as GitHub does. */
import { dirname, join } from "node:path";
import { homepage } from "../package.json";

/** Address of the repository on its host, from package.json. */
export const REPOSITORY = homepage.replace(/#.*$/, "");

/** Returns the address of a file on the main branch of the repository. `path`: its path from the root of the repository. */
export const repositoryLink = (path: string) => `${REPOSITORY}/blob/main/${path}`;

/** Matches blocks of code and inline code, in which `](…)` is no link and `#` no heading. */
const CODE = /^ *```[\s\S]*?^ *```|`[^`\n]*`/gm;
/** Matches the address of a link or picture. Groups: the address without the anchor, and the anchor with its `#`. */
const LINK = /\]\(([^)#\s]*)(#[^)\s]*)?\)/g;
const IS_ELSEWHERE = /^[a-z]+:/;

/** Returns the text with the parts outside code changed by `change`. */
function outsideCode(text: string, change: (part: string) => string): string {
  const codes = text.match(CODE) ?? [];
  return text
    .split(CODE)
    .map((part, at) => change(part) + (codes[at] ?? ""))
    .join("");
}

/**
 * Changes the relative links of a page. `path`: the page's path from the root of the repository. `to` receives the path to
 * which a link leads, and returns the new address, or null to keep the link.
 */
export function relinked(text: string, path: string, to: (target: string) => string | null): string {
  return outsideCode(text, (part) =>
    part.replace(LINK, (whole, file: string, anchor = "") => {
      if (file === "" || IS_ELSEWHERE.test(file)) return whole;
      const address = to(join(dirname(path), file));
      return address === null ? whole : `](${address}${anchor})`;
    }),
  );
}

export interface PageLink {
  /** Address without the anchor, "" for the page itself. */
  readonly file: string;
  /** Anchor without its sign, "" for none. */
  readonly anchor: string;
}

/** Returns the links and pictures of a page, except those to other sites. */
export function linksOf(text: string): PageLink[] {
  const links: PageLink[] = [];
  outsideCode(text, (part) => {
    for (const [, file = "", anchor = ""] of part.matchAll(LINK))
      if (!IS_ELSEWHERE.test(file)) links.push({ file, anchor: anchor.slice(1) });
    return part;
  });
  return links;
}

/** Returns the anchor that GitHub derives from a heading without its Markdown signs. */
export const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");

/** Returns the anchors of a page's headings. Of equal headings, the second has the ending -1. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const withoutBlocks = text.replace(/^ *```[\s\S]*?^ *```/gm, "");
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutBlocks.matchAll(/^#+ (.*)$/gm)) {
    const anchor = anchorOf(heading.replaceAll("`", "").trim());
    let count = 0;
    while (anchors.has(count === 0 ? anchor : `${anchor}-${count}`)) count++;
    anchors.add(count === 0 ? anchor : `${anchor}-${count}`);
  }
  return anchors;
}

/** Makes the site's menus from the list of all pages in docs/README.md, which a test keeps complete. */
import type { DefaultTheme } from "vitepress";

interface PageGroup {
  /** Name in the list, for example "How-to: answers". */
  readonly name: string;
  readonly pages: readonly { readonly title: string; readonly path: string }[];
}

/** Groups that are no kind of docs. They follow in a menu of their own. */
const OTHERS = ["Servers", "Internals"];

/**
 * Reads the groups of the list. `titleOf` returns the title of a page by its path from the root of the site, such as
 * docs/tutorial/first-stream.md.
 */
export function groupsOf(index: string, titleOf: (path: string) => string): PageGroup[] {
  const list = index.split("## All pages\n")[1] ?? "";
  return list
    .split(/^(?=\*\*)/m)
    .map((part) => ({
      name: /^\*\*(.*?)\*\*/.exec(part)?.[1] ?? "",
      pages: [...part.matchAll(/^\| \[[^\]]+\]\(([^)]+)\)/gm)].map(([, file = ""]) => {
        const path = `docs/${file.replace(/\bREADME\.md$/, "index.md")}`;
        return { title: titleOf(path), path };
      }),
    }))
    .filter(({ name }) => name !== "");
}

/** Returns the address of a page's Markdown. */
const addressOf = (path: string) => `/${path.replace(/\.md$/, "").replace(/(^|\/)index$/, "$1")}`;

const itemsOf = ({ pages }: PageGroup) => pages.map(({ title, path }) => ({ text: title, link: addressOf(path) }));

/** Returns the kind of a group: "How-to" for "How-to: answers". */
const kindOf = (name: string) => name.split(": ")[0]!;

/** Returns the menu of one kind: its pages, or its groups if it has several. */
function menuOf(kind: string, groups: readonly PageGroup[]): DefaultTheme.NavItemWithChildren {
  const mine = groups.filter(({ name }) => kindOf(name) === kind);
  const parts = mine.map((group) => ({ text: group.name.slice(kind.length + 2), items: itemsOf(group) }));
  return { text: kind, items: mine.length === 1 ? itemsOf(mine[0]!) : parts };
}

/** Returns the menu at the top: the four kinds of docs, and a menu of other pages. */
export function topMenu(groups: readonly PageGroup[]): DefaultTheme.NavItem[] {
  const kinds = [...new Set(groups.map(({ name }) => kindOf(name)))].filter((kind) => !OTHERS.includes(kind));
  const more = [
    { text: "README", link: "/readme" },
    { text: "All docs", link: "/docs/" },
    { text: "Changelog", link: "/changelog" },
  ];
  const others = groups.filter(({ name }) => OTHERS.includes(name));
  return [
    ...kinds.map((kind) => menuOf(kind, groups)),
    { text: "More", items: [{ items: more }, ...others.map((group) => ({ text: group.name, items: itemsOf(group) }))] },
  ];
}

/** Returns the menu at the side: all groups, closed except the one with the current page. */
export function sideMenu(groups: readonly PageGroup[]): DefaultTheme.SidebarItem[] {
  const first = {
    text: "Start",
    items: [
      { text: "README", link: "/readme" },
      { text: "All docs", link: "/docs/" },
      { text: "Changelog", link: "/changelog" },
    ],
  };
  return [first, ...groups.map((group) => ({ text: group.name, collapsed: true, items: itemsOf(group) }))];
}

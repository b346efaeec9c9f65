/** Makes the site's menus from the groups of pages that docs/README.md lists. */
import type { DefaultTheme } from "vitepress";
import type { PageGroup } from "../docs/page-index.ts";

/** Groups whose pages are in the menu "More", because they are no kind of docs. */
const OTHERS = ["Servers", "Internals"];

/** Pages that both menus have in addition to the groups. */
const ENTRANCES = [
  { text: "README", link: "/readme" },
  { text: "All docs", link: "/docs/" },
  { text: "Changelog", link: "/changelog" },
];

/** Returns the address of a page, without an ending. `path` begins in `docs/`. A folder's README has the address of the folder. */
const addressOf = (path: string) => `/docs/${path.replace(/(\bREADME)?\.md$/, "")}`;

const itemsOf = ({ pages }: PageGroup) =>
  pages.map(({ title, path }) => ({ text: title.replaceAll("`", ""), link: addressOf(path) }));

/** Returns the kind of a group: "How-to" for "How-to: answers". */
const kindOf = (heading: string) => heading.split(": ")[0]!;

/** Returns the menu of one kind: its pages, or its groups if it has several. */
function menuOf(kind: string, groups: readonly PageGroup[]): DefaultTheme.NavItemWithChildren {
  const mine = groups.filter(({ heading }) => kindOf(heading) === kind);
  const parts = mine.map((group) => ({ text: group.heading.slice(kind.length + 2), items: itemsOf(group) }));
  return { text: kind, items: mine.length === 1 ? itemsOf(mine[0]!) : parts };
}

/** Returns the menu at the top: the four kinds of docs, and a menu of other pages. */
export function topMenu(groups: readonly PageGroup[]): DefaultTheme.NavItem[] {
  const kinds = [...new Set(groups.map(({ heading }) => kindOf(heading)))].filter((kind) => !OTHERS.includes(kind));
  const others = groups.filter(({ heading }) => OTHERS.includes(heading));
  return [
    ...kinds.map((kind) => menuOf(kind, groups)),
    {
      text: "More",
      items: [{ items: ENTRANCES }, ...others.map((group) => ({ text: group.heading, items: itemsOf(group) }))],
    },
  ];
}

/** Returns the menu at the side: all groups, closed except the one with the current page. */
export function sideMenu(groups: readonly PageGroup[]): DefaultTheme.SidebarItem[] {
  return [
    { text: "Start", items: ENTRANCES },
    ...groups.map((group) => ({ text: group.heading, collapsed: true, items: itemsOf(group) })),
  ];
}

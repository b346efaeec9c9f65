/** Checks the Markdown and the menus of the site, before the generator makes pages of them. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pageGroups } from "../../scripts/docs/page-index.ts";
import { anchorsOf, linksOf, REPOSITORY, relinked, repositoryLink } from "../../scripts/page-links.ts";
import { sideMenu, topMenu } from "../../scripts/site/navigation.ts";
import { PICTURES, sitePages } from "../../scripts/site/pages.ts";

const root = new URL("../../", import.meta.url).pathname;
const pages = sitePages();
const byPath = new Map(pages.map((page) => [page.path, page]));

test("README, docs and changelog are pages, and the first page is the demo's", () => {
  const sources = ["README.md", "CHANGELOG.md", ...new Bun.Glob("docs/**/*.md").scanSync(root)];
  expect(pages.flatMap(({ source }) => source ?? []).sort()).toEqual(sources.sort());
  expect(byPath.size).toBe(pages.length);
  expect(byPath.get("index.md")!.text).toContain("Understudy stands in for");
});

test.each(pages.map(({ path }) => path))(
  "%s: links lead to pages, headings, pictures or files of the repository",
  (path) => {
    const { text } = byPath.get(path)!;
    const wrong = linksOf(text).filter(({ file, anchor }) => {
      const to = file === "" ? path : join(dirname(path), file);
      if (PICTURES.includes(to)) return false;
      const page = byPath.get(to);
      return page === undefined || (anchor !== "" && !anchorsOf(page.text).has(anchor));
    });
    expect(wrong).toEqual([]);
    const outside = [...text.matchAll(/\]\((https?:[^)#\s]+)/g)].map(([, url]) => url!);
    const files = outside.filter((url) => url.startsWith(`${REPOSITORY}/`));
    expect(files.filter((url) => !existsSync(join(root, url.slice(repositoryLink("").length))))).toEqual([]);
  },
);

test.each(pages.filter(({ source }) => source !== null).map(({ path }) => path))(
  "%s: without links and markers, the text is that of the repository",
  (path) => {
    const { source, text } = byPath.get(path)!;
    const plain = (some: string) => some.replace(/\]\([^)\s]*\)/g, "]()").replace(/^ *<!--.*-->$/gm, "");
    expect(plain(text)).toBe(plain(readFileSync(root + source, "utf8")));
    expect(text).not.toMatch(/^ *<!--/m);
  },
);

const groups = pageGroups();
const linksIn = (menu: unknown): string[] =>
  [...JSON.stringify(menu).matchAll(/"link":"([^"]+)"/g)].map(([, link]) => link!);

test("the top menu has the four kinds of docs, and both menus lead to every page", () => {
  expect(topMenu(groups).map((item) => (item as { text: string }).text)).toEqual([
    ...["Tutorials", "How-to", "Reference", "Explanation", "More"],
  ]);
  const addresses = pages
    .filter(({ source }) => source !== null)
    .map(({ path }) => `/${path.replace(/(index)?\.md$/, "")}`);
  for (const menu of [topMenu(groups), sideMenu(groups)])
    expect([...new Set(linksIn(menu))].sort()).toEqual(addresses.toSorted());
});

test("the buttons and cards of the first page lead to pages", () => {
  const links = [...byPath.get("index.md")!.text.matchAll(/link: (\S+)/g)].map(([, link]) => link!);
  expect(links.length).toBeGreaterThan(4);
  expect(links.filter((link) => !byPath.has(`${link.slice(1)}.md`))).toEqual([]);
});

test("links are changed outside code only, and equal headings have different anchors", () => {
  const text = "[`a`](b.md#c) `[a](b.md)` [d](https://x.y/b.md) [e](#f)\n\n```sh\n[a](b.md)\n```\n![p](../q.png)\n";
  const changed = relinked(text, "pages/page.md", (target) => `<${target}>`);
  expect(changed).toBe(text.replace("(b.md#c)", "(<pages/b.md>#c)").replace("(../q.png)", "(<q.png>)"));
  expect(linksOf(text)).toEqual([
    { file: "b.md", anchor: "c" },
    { file: "", anchor: "f" },
    { file: "../q.png", anchor: "" },
  ]);
  expect([...anchorsOf("# A `--b`\n\n## A --b\n\n```sh\n# no\n```\n")]).toEqual(["a---b", "a---b-1"]);
});

/** Configuration of VitePress, the generator of the site. scripts/site.ts stages the pages and runs it. */
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { pageGroups } from "../docs/page-index.ts";
import { markdown } from "./markdown.ts";
import { sideMenu, topMenu } from "./navigation.ts";
import { notice } from "./notice.ts";

/** Folder of the staged pages, folder of the site, and its address below that of the host. */
const { SITE_PAGES, SITE_OUT, SITE_BASE } = process.env;

const groups = pageGroups();

export default defineConfig({
  srcDir: SITE_PAGES!,
  outDir: SITE_OUT!,
  base: SITE_BASE!,
  lang: "en",
  title: "Understudy",
  description: "A stand-in for LLM inference servers, for tests of the software around them.",
  head: [["link", { rel: "icon", href: `${SITE_BASE}favicon.svg`, type: "image/svg+xml" }]],
  markdown,
  themeConfig: {
    logo: "/favicon.svg",
    nav: topMenu(groups),
    sidebar: sideMenu(groups),
    outline: [2, 3],
    search: { provider: "local" },
    externalLinkIcon: true,
  },
  // Tables of the reference get the whole width.
  transformPageData: ({ relativePath, frontmatter }) => ({
    frontmatter: { ...frontmatter, aside: !relativePath.startsWith(join("docs", "reference")) },
  }),
  vite: { plugins: [notice()], logLevel: "warn", build: { chunkSizeWarningLimit: 10_000 } },
});

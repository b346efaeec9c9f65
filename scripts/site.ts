/**
 * Writes README, docs and changelog as static pages to build/site: `npx bun run site`. `--base /path/` is for a host that
 * serves the site below that path.
 */
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, relative } from "node:path";
import { bundleDemo } from "./site/bundle-demo.ts";
import { PICTURES, sitePages } from "./site/pages.ts";

const root = new URL("../", import.meta.url).pathname;
const out = `${root}build/site`;
/** Folder of the generator's input. */
const stage = `${root}build/site-pages`;

/** Reads the words of the command line. Ends the process if they are wrong. */
function baseOf(words: readonly string[]): string {
  const [flag, base = "/", ...more] = words.filter((word) => word !== "--");
  if (flag === undefined) return "/";
  if (flag !== "--base" || more.length > 0 || !/^\/([\w.-]+\/)*$/.test(base)) {
    console.error(`site: ${words.join(" ")}: accepted is --base PATH, which begins and ends with a slash`);
    process.exit(2);
  }
  return base;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(`${stage}/${path}`), { recursive: true });
  writeFileSync(`${stage}/${path}`, text);
}

async function run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<void> {
  const child = Bun.spawn([...command], {
    ...{ cwd: root, env: { ...process.env, ...env } },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if ((await child.exited) !== 0) process.exit(1);
}

const base = baseOf(process.argv.slice(2));
if (!existsSync(`${root}build/core.wasm`)) await run([process.execPath, "scripts/build.ts"]);
for (const folder of [stage, out]) rmSync(folder, { recursive: true, force: true });
const pages = sitePages();
for (const { path, text } of pages) write(path, text);
for (const path of PICTURES) cpSync(root + path, `${stage}/${path}`);
cpSync(`${root}scripts/site/favicon.svg`, `${stage}/public/favicon.svg`);
await bundleDemo(`${stage}/public/demo`);
// The generator looks for its configuration and theme in a folder with this name, next to the pages.
for (const [name, file] of [
  ["config", "config.ts"],
  ["theme/index", "theme/index.ts"],
] as const) {
  const path = `.vitepress/${name}.ts`;
  const to = relative(dirname(`${stage}/${path}`), `${root}scripts/site/${file}`);
  write(path, `export { default } from "${to}";\n`);
}
const env = { SITE_PAGES: stage, SITE_OUT: out, SITE_BASE: base };
// Under Bun 1.4.5 the generator sometimes does not end after its work.
await run(["node", "node_modules/vitepress/bin/vitepress.js", "build", stage], env);
console.log(`build/site: ${pages.length} pages. Any web server can serve this folder.`);

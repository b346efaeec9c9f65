/** Builds the site into build/site and serves it on a free port. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { done } from "../packed.ts";

const root = new URL("../../", import.meta.url).pathname;
export const SITE = `${root}build/site`;

/** Runs `npx bun run site`. Rejects with its output if it fails. */
export const buildSite = () => done([process.execPath, "scripts/site.ts"], root);

/** Serves the files of the site as a plain web server does. */
export const serveSite = () =>
  Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch({ url }) {
      const path = decodeURIComponent(new URL(url).pathname).replace(/\/$/, "/index.html");
      return existsSync(SITE + path) ? new Response(Bun.file(SITE + path)) : new Response("", { status: 404 });
    },
  });

/** Returns the paths of the site's pages, from its root. */
export const builtPages = () =>
  readdirSync(SITE, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".html") && path !== "404.html")
    .sort();

export const readBuilt = (path: string) => readFileSync(`${SITE}/${path}`, "utf8");

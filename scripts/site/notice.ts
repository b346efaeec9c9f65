/** Writes the licences of the libraries in the site's scripts, as a plugin of Vite, which makes the scripts. */
import { readdirSync, readFileSync } from "node:fs";
import type { Plugin } from "vitepress";

const root = new URL("../../", import.meta.url).pathname;

/** Returns the name, version and licence of a package. Throws if it has no licence. */
function licenceOf(name: string): string {
  const folder = `${root}node_modules/${name}/`;
  const { version, license } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
  if (file === undefined && license === undefined) throw new Error(`${name} has no licence`);
  const text = file === undefined ? `License: ${license}` : readFileSync(folder + file, "utf8").trim();
  return `${name} ${version}\n\n${text}\n`;
}

/** Adds NOTICE.txt to the files of the site: the repository's own notice, and the licences of bundled packages. */
export const notice = (): Plugin => ({
  name: "notice",
  generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap((part) => (part.type === "chunk" ? Object.keys(part.modules) : []));
    const names = modules.flatMap((path) => /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
    // The core, which the demo loads, contains the compiler's own library.
    const licences = [...new Set([...names, "assemblyscript"])].sort().map(licenceOf);
    const texts = [readFileSync(`${root}NOTICE`, "utf8"), ...licences];
    this.emitFile({ type: "asset", fileName: "NOTICE.txt", source: texts.join(`\n${"-".repeat(100)}\n`) });
  },
});

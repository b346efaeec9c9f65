/** Writes the licences of the libraries in the site's scripts, as a plugin of Vite, which makes the scripts. */
import { readFileSync } from "node:fs";
import type { Plugin } from "vitepress";
import { packageOf } from "../packed-notice.ts";

const root = new URL("../../", import.meta.url).pathname;

/** Returns the name, version and licence of a package. Throws if it has no licence. */
function licenceOf(packageName: string): string {
  const { name, version, text } = packageOf(packageName, "");
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

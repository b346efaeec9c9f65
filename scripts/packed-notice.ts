/**
 * Writes the NOTICE file of a package or of a single file. It has the repository's notice, then the libraries in the bundles, the
 * data in the vocabulary, and Bun if it is packed.
 */
import { readdirSync, readFileSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;

/** Returns the MIT licence of a copyright holder, for works that are packed without being a package in a bundle. */
const MIT = (holder: string) => `MIT License

Copyright (c) ${holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

const TIKTOKEN = {
  title: "tiktoken: the ranks of o200k_harmony, in build/vocabulary.bin and build/answers.bin",
  text: MIT("2022 OpenAI, Shantanu Jain"),
};

function packageOf(name: string, where: string): { readonly title: string; readonly text: string } {
  const folder = `${root}node_modules/${name}/`;
  const { version, license } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)(\.|$)/i.test(entry));
  if (file === undefined && license === undefined) throw new Error(`${name} has no licence`);
  const text = file === undefined ? `License: ${license}` : readFileSync(folder + file, "utf8").trim();
  return { title: `${name} ${version}: ${where}`, text };
}

/** Returns Bun's own list of its licences and libraries, a documentation page in the package `bun-types`. */
function bunLicences(): { readonly title: string; readonly text: string } {
  const types = `${root}node_modules/bun-types`;
  const { version } = JSON.parse(readFileSync(`${types}/package.json`, "utf8"));
  const [path] = new Bun.Glob("*/project/license.mdx").scanSync(types);
  const page = readFileSync(`${types}/${path}`, "utf8");
  return { title: `bun ${version}: the runtime`, text: page.replace(/^---[\s\S]*?---\n/, "").trim() };
}

/**
 * Returns the text of the NOTICE file. `bundled`: packages whose code is in a bundle. `hasVocabulary`: true if the vocabulary
 * is packed. `hasRuntime`: true if Bun is packed.
 */
export function noticeOf(name: string, bundled: readonly string[], hasVocabulary: boolean, hasRuntime = false): string {
  const parts = bundled.toSorted().map((dependency) => packageOf(dependency, "bundled"));
  if (hasVocabulary) {
    parts.push(packageOf("gpt-tokenizer", "its table of o200k_harmony, from which build/vocabulary.bin is made"));
    parts.push(packageOf("uplot", "in build/report.js and build/report.css"));
  }
  if (hasRuntime) parts.push(bunLicences());
  parts.push(TIKTOKEN, packageOf("assemblyscript", "its runtime library, in build/core.wasm"));
  const rule = "-".repeat(100);
  const ours = readFileSync(`${root}NOTICE`, "utf8");
  return `${ours}\n${name} contains work of others, under their own terms:\n\n${parts.map(({ title, text }) => `${rule}\n${title}\n\n${text}\n`).join("\n")}`;
}

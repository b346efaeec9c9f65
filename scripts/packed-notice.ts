/**
 * Lists the works of others in a package or in a single file, and writes its NOTICE file. The file has the repository's notice,
 * then the libraries in the bundles, the data in the vocabulary, and Bun if it is packed.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

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

/** A library, a runtime or data of other authors that is part of an npm package or of a single file. */
export interface PackedPart {
  readonly name: string;
  /** Null if the work has no version. */
  readonly version: string | null;
  readonly kind: "package" | "runtime" | "data";
  /** The form of the work in the package or file, for example "bundled". */
  readonly where: string;
  /** Licence as an expression of SPDX. Null if the work has several licences, which the text lists. */
  readonly licence: string | null;
  /** Text of the licence. */
  readonly text: string;
}

const TIKTOKEN: PackedPart = {
  name: "tiktoken",
  version: null,
  kind: "data",
  where: "the ranks of o200k_harmony, in build/vocabulary.bin and build/answers.bin",
  licence: "MIT",
  text: MIT("2022 OpenAI, Shantanu Jain"),
};

/**
 * Reads version and licence of a package in node_modules. `where`: as in `PackedPart`. Throws if the package has no licence.
 */
export function packageOf(name: string, where: string): PackedPart {
  const folder = `${root}node_modules/${name}/`;
  const { version, license } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)(\.|$)/i.test(entry));
  if (file === undefined && license === undefined) throw new Error(`${name} has no licence`);
  const text = file === undefined ? `License: ${license}` : readFileSync(folder + file, "utf8").trim();
  return { name, version, kind: "package", where, licence: license ?? null, text };
}

/** Returns Bun with its own list of licences and libraries, a documentation page in the package `bun-types`. */
function bun(): PackedPart {
  const types = `${root}node_modules/bun-types`;
  const { version } = JSON.parse(readFileSync(`${types}/package.json`, "utf8"));
  const [path] = new Bun.Glob("*/project/license.mdx").scanSync(types);
  const text = readFileSync(`${types}/${path}`, "utf8")
    .replace(/^---[\s\S]*?---\n/, "")
    .trim();
  return { name: "bun", version, kind: "runtime", where: "the runtime", licence: null, text };
}

interface PartsInput {
  /** Names of npm packages whose code is in our bundles. */
  readonly bundled: readonly string[];
  readonly hasVocabulary?: boolean;
  readonly hasRuntime?: boolean;
}

function partsOf({ bundled, hasVocabulary = false, hasRuntime = false }: PartsInput): PackedPart[] {
  const parts = bundled.toSorted().map((dependency) => packageOf(dependency, "bundled"));
  if (hasVocabulary) {
    parts.push(packageOf("gpt-tokenizer", "its table of o200k_harmony, from which build/vocabulary.bin is made"));
    parts.push(packageOf("uplot", "in build/report.js and build/report.css"));
  }
  if (hasRuntime) parts.push(bun());
  parts.push(TIKTOKEN, packageOf("assemblyscript", "its runtime library, in build/core.wasm"));
  return parts;
}

/** Folder with a list of parts for each packed work, which scripts/release.ts reads. */
export const PARTS = "build/parts";

/** Writes NOTICE into the folder, and the list of parts into `build/parts/NAME.json`. */
export function writeNotice(folder: string, name: string, packed: PartsInput): void {
  const parts = partsOf(packed);
  mkdirSync(`${root}${PARTS}`, { recursive: true });
  writeFileSync(`${root}${PARTS}/${name}.json`, JSON.stringify(parts));
  const rule = "-".repeat(100);
  const ours = readFileSync(`${root}NOTICE`, "utf8");
  const texts = parts.map(({ name: part, version, where, text }) => {
    const title = version === null ? part : `${part} ${version}`;
    return `${rule}\n${title}: ${where}\n\n${text}\n`;
  });
  writeFileSync(
    `${folder}/NOTICE`,
    `${ours}\n${name} contains work of others, under their own terms:\n\n${texts.join("\n")}`,
  );
}

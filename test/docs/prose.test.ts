/** Checks how much of the docs is written by hand, how long a paragraph is, and that pages named in other files exist. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";

const HAND_WORDS_MAX = 40_000;
const PARAGRAPH_WORDS_MAX = 90;
const MAP_LINES_MAX = 150;
const PRIVATE_WORDS_MAX = 8;

const root = new URL("../../", import.meta.url).pathname;
const read = (path: string) => readFileSync(root + path, "utf8");
const pages = ["README.md", "ARCHITECTURE.md", ...new Bun.Glob("docs/**/*.md").scanSync(root)];

/** Removes the text that scripts write between markers. */
const byHand = (text: string) => text.replace(/<!-- ([\w-]+) -->[\s\S]*?<!-- \/\1 -->/g, "");
const wordsIn = (text: string) => text.split(/\s+/).filter(Boolean).length;

/** Returns the paragraphs and the list items outside code, tables and headings. */
function paragraphsOf(text: string): string[] {
  const prose = byHand(text).replace(/^ *```[\s\S]*?^ *```/gm, "\n");
  return prose
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/)
    .map((block) => block.trim())
    .filter((block) => block !== "" && !/^[|#]/.test(block));
}

test("at most 40,000 words are written by hand", () => {
  const words = pages.map((path) => wordsIn(byHand(read(path))));
  expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(HAND_WORDS_MAX);
});

test.each(pages)("%s has no paragraph of more than 90 words", (path) => {
  expect(paragraphsOf(read(path)).filter((paragraph) => wordsIn(paragraph) > PARAGRAPH_WORDS_MAX)).toEqual([]);
});

test("generated text, code and tables are not counted, and list items are counted one by one", () => {
  const text =
    "# A b\n\nOne two.\n- three\n- four five\n\n| a | b |\n|---|---|\n\n```sh\nx y\n```\n\n<!-- a -->\nmade\n<!-- /a -->\n";
  expect(paragraphsOf(text)).toEqual(["One two.", "- three", "- four five"]);
  expect(wordsIn(byHand(text))).toBe(wordsIn(text) - 7);
});

test("ARCHITECTURE.md has at most 150 lines, and explains at most 8 words", () => {
  const text = read("ARCHITECTURE.md");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(MAP_LINES_MAX);
  const words = text
    .split("\n## Words\n")[1]!
    .split("\n## ")[0]!
    .match(/^\| \w.*\|$/gm)!;
  expect(words.length - 1).toBeLessThanOrEqual(PRIVATE_WORDS_MAX);
});

/** A page of another project. */
const THEIRS = ["docs/plugin-metric-protocol.md"];

test("every page of the docs that a file of the repository names exists", () => {
  const kinds = "{ts,js,mjs,cjs,c,py,go,java,sh,md,yml,yaml,json,toml,txt}";
  const folders = "{src,assembly,bench,bin,deploy,docs,examples,scripts,test,.github,.ci}";
  const files = [`*.${kinds}`, `${folders}/**/*.${kinds}`, "bin/*", ".ci/*"].flatMap((pattern) => [
    ...new Bun.Glob(pattern).scanSync({ cwd: root, dot: true }),
  ]);
  const ours = files.filter(
    (path) => !/node_modules|\/recorded|^CHANGELOG|golden\/vllm|\/crds\/|\/results\//.test(path),
  );
  expect(ours.length).toBeGreaterThan(1000);
  const wrong = ours.flatMap((path) =>
    [...read(path).matchAll(/(?<![\w-])docs\/[\w/-]+\.(?:md|png)/g)]
      .map(([name]) => name)
      .filter((name) => !THEIRS.includes(name) && !existsSync(root + name))
      .map((name) => `${path}: ${name}`),
  );
  expect(wrong).toEqual([]);
});

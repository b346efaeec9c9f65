/**
 * Checks that each server has a page for its developers, of at most one and a half screens, whose files and folders exist.
 */

import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROLE_NAMES } from "../../src/app/config/roles.ts";

const root = new URL("../../", import.meta.url).pathname;
const servers = [...new Bun.Glob("src/servers/*/server.ts").scanSync({ cwd: root })].map(dirname).sort();
const SECTIONS = ["Listeners", "Routes", "To change", "What is known to differ"];

/** Returns the files and folders that a page names: link targets, and paths from the root. */
function named(page: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, to]) => join(dirname(page), to!));
  const paths = [...text.matchAll(/`((?:src|test|assembly|scripts)\/[^`\s]*)`/g)].map(([, path]) => path!);
  return [...links, ...paths];
}

const exists = (path: string) =>
  path.includes("*")
    ? [...new Bun.Glob(path).scanSync({ cwd: root, onlyFiles: false })].length > 0
    : existsSync(root + path);

test("there is a server folder for each role", () => expect(servers).toHaveLength(ROLE_NAMES.length));

test.each(servers)("%s/README.md has the required sections", (folder) => {
  const page = `${folder}/README.md`;
  const text = readFileSync(root + page, "utf8");
  expect(text.split("\n").length).toBeLessThanOrEqual(80);
  // Triton lists its routes under its ports, so its page has no section for them.
  const wanted = SECTIONS.filter((name) => folder !== "src/servers/triton" || name !== "Routes");
  expect(wanted.filter((name) => !text.includes(`\n## ${name}\n`))).toEqual([]);
  const paths = named(page, text);
  expect(paths.length).toBeGreaterThan(8);
  expect(paths.filter((path) => !exists(path))).toEqual([]);
});

test("a path that does not exist is reported", () => {
  const text = "[a](b.ts) [c](https://d) `src/nothing.ts` `test/conformance/recorded*/`";
  const paths = named("src/servers/vllm/README.md", text);
  expect(paths.filter((path) => !exists(path))).toEqual(["src/servers/vllm/b.ts", "src/nothing.ts"]);
});

/** Checks which lines count as code. */
import { expect, test } from "bun:test";
import { byFolder, codeLines } from "../../scripts/count-lines.ts";

test("a line counts if it has code beside its comments", () => {
  expect(codeLines("")).toBe(0);
  expect(codeLines("/** A header\n * of two lines. */\n\n// a comment\n")).toBe(0);
  expect(codeLines('const url = "http://localhost"; // a comment\n/* before */ const a = 1;\n')).toBe(2);
  expect(codeLines("f(\n  // why\n  a,\n\n  b,\n);\n")).toBe(4);
  expect(codeLines("const text = `first\n// part of the text\n\nlast`;\n")).toBe(3);
});

test("lines are added up by folder", () => {
  const files = [
    ["src/a/b/one.ts", 1],
    ["src/a/b/c/two.ts", 2],
    ["src/a/three.ts", 4],
  ] as const;
  expect(byFolder(files, 2)).toEqual([["src/a", 7]]);
  expect(byFolder(files, 3)).toEqual([
    ["src/a", 4],
    ["src/a/b", 3],
  ]);
});

/** Tests the test runner's script: it must count failures, keep every file, and draw the same sample for the same seed. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { chunksOf, costs, countOf, filesOf, inLanes, root } from "../../scripts/test-lanes.ts";
import { SIZED } from "../../scripts/test-sizes.ts";
import { drawn, sampled, sized } from "../size.ts";

const ITEMS = Array.from({ length: 40 }, (_, i) => i);

test("a sample depends on the seed, has the given size and keeps the order of the items", () => {
  const [sample, again, other] = [1, 1, 2].map((seed) => drawn(ITEMS, 10, seed)) as [number[], number[], number[]];
  expect(again).toEqual(sample);
  expect(other).not.toEqual(sample);
  expect([sample.length, sample]).toEqual([10, sample.toSorted((a, b) => a - b)]);
  expect(new Set(Array.from({ length: 40 }, (_, seed) => drawn(ITEMS, 5, seed)).flat()).size).toBe(40);
  expect(drawn(ITEMS, 100, 3)).toEqual(ITEMS);
});

test("TEST_WHOLE selects the whole of one test, and all others stay samples", () => {
  const script = `const { sized, sampled } = await import("../size.ts");
    const sizes = { sample: 1, whole: 2 };
    console.log(JSON.stringify([sized("a", sizes), sized("b", sizes), sampled("a", [1, 2, 3], 1).length]))`;
  const env = { ...process.env, TEST_WHOLE: "a" };
  const { stdout } = Bun.spawnSync([process.execPath, "--eval", script], { cwd: import.meta.dir, env });
  expect(JSON.parse(stdout.toString())).toEqual([2, 1, 3]);
  expect([sized("none", { sample: 1, whole: 2 }), sampled("none", ITEMS, 3).length]).toEqual([1, 3]);
});

test("--without-TOOL is accepted only by tests that use the tool", () => {
  const command = (...words: string[]) => {
    const all = [process.execPath, "scripts/test.ts", ...words];
    const { stderr, exitCode } = Bun.spawnSync(all, { cwd: root, env: process.env });
    return `${exitCode} ${stderr}`;
  };
  expect(SIZED.kubernetes!.tools).toEqual(["go"]);
  expect(command("kubernetes", "--without-rust")).toMatch(/^2 .*--no-save, --without-go are accepted/);
  expect(command("laws", "--without-go")).toMatch(/^2 .*--sample, --no-save are accepted/);
});

test("every test of two sizes has files and reads its size", () => {
  for (const [name, { paths }] of Object.entries(SIZED)) {
    expect(filesOf(paths).length).toBeGreaterThan(0);
    const asks = new RegExp(`\\b(sized|sampled)\\(\\s*"${name}"`);
    const folders = new Set(paths.map((path) => path.replace(/[^/]*\.ts$/, "")));
    const sources = [...folders].flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(root)]);
    expect(sources.some((file) => asks.test(readFileSync(root + file, "utf8")))).toBe(true);
  }
});

test("each file is in one chunk, long files are alone and come first, and a new file has a default time", () => {
  const known = { a: 30, b: 12, c: 6, d: 5, e: 4, f: 0.5 };
  const chunks = chunksOf(["new", "f", "e", "d", "c", "b", "a"], known, 10);
  expect(chunks).toEqual([["a"], ["b"], ["c", "e"], ["d", "new", "f"]]);
  const all = filesOf(["test"]);
  expect(chunksOf(all, costs).flat().sort()).toEqual(all);
  expect(all).toContain("test/scripts/test-lanes.test.ts");
});

test("a free lane takes the next job, and all jobs are done at the end", async () => {
  const lines: string[] = [];
  const first = Promise.withResolvers<void>();
  const job =
    (name: string, until: Promise<void> = Promise.resolve()) =>
    async () => {
      await until;
      lines.push(name);
      if (name === "c") first.resolve();
    };
  await inLanes([job("a", first.promise), job("b"), job("c"), job("d")], 2);
  expect(lines.slice(0, 2)).toEqual(["b", "c"]);
  expect(lines.toSorted()).toEqual(["a", "b", "c", "d"]);
});

test.each([
  ["all passed", '<testsuites tests="5" failures="0" skipped="1">', true, { passed: 4, failed: 0 }],
  ["two failed", '<testsuites tests="5" failures="2" skipped="0">', false, { passed: 3, failed: 2 }],
  ["a file did not load", '<testsuites tests="5" failures="0" skipped="0">', false, { passed: 5, failed: 1 }],
  ["a test ended the process", "", false, { passed: 0, failed: 1 }],
  ["nothing ran", '<testsuites tests="0" failures="0" skipped="0">', true, { passed: 0, failed: 1 }],
])("the report is counted: %s", (_, report, succeeded, count) => {
  expect(countOf(report, succeeded)).toEqual(count);
});

/** Checks that a file of results keeps the last three lines of each machine and kind. */
import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addLine, lastLine, newest } from "../../bench/lib/kept-lines.ts";

const lineOf = (run: number, cpu: string, cores: number, kind?: string) =>
  JSON.stringify({ run, kind, machine: { cpu, cores } });
const runsOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { run: number }).run);

test("a fourth line of the same machine replaces the oldest one", () => {
  const folder = mkdtempSync(join(tmpdir(), "kept-lines-"));
  const file = join(folder, "results", "bench.jsonl");
  try {
    expect(lastLine(file)).toBeUndefined();
    for (const run of [1, 2, 3, 4, 5]) {
      addLine(file, lineOf(run, "a", 2));
      expect(lastLine(file)).toBe(lineOf(run, "a", 2));
    }
    expect(runsOf(readFileSync(file, "utf8"))).toEqual([3, 4, 5]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("lines of another processor, number of cores or kind are counted separately", () => {
  const lines = [1, 2, 3, 4].flatMap((round) => [
    lineOf(10 * round, "a", 2),
    lineOf(10 * round + 1, "a", 4),
    lineOf(10 * round + 2, "b", 2),
    lineOf(10 * round + 3, "a", 2, "base"),
  ]);
  expect(runsOf(newest(`${lines.join("\n")}\n`))).toEqual([20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42, 43]);
});

test('a line without a kind counts as of the kind ""', () => {
  const lines = [lineOf(1, "a", 2), lineOf(2, "a", 2, ""), lineOf(3, "a", 2), lineOf(4, "a", 2, "")];
  expect(runsOf(newest(lines.join("\n")))).toEqual([2, 3, 4]);
});

test.each(["bench/results", "test/results"])("the committed files of %s keep the rule", (folder) => {
  const path = new URL(`../../${folder}/`, import.meta.url).pathname;
  const files = readdirSync(path).filter((name) => name.endsWith(".jsonl"));
  expect(files.length).toBeGreaterThan(15);
  const tooLong = files.filter((name) => {
    const text = readFileSync(path + name, "utf8");
    return newest(text) !== text;
  });
  expect(tooLong).toEqual([]);
});

/** Tests that the documentation's programs run in Node and in Bun, and are short. test/runners tests client.test.js. */
import { beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { done, run } from "../packed.ts";
import { sampled } from "../size.ts";

const root = new URL("../../", import.meta.url).pathname;
const folder = `${root}examples/programs/`;
/** Files that the programs use as targets of their tests. */
const TESTED = ["client.js", "gateway.js"];
const programs = readdirSync(folder).filter((name) => !TESTED.includes(name));
const LINES_MOST = 30;

beforeAll(async () => {
  await done([process.execPath, "scripts/build.ts", "--library"], root);
}, 120_000);

test("the folder has five programs", () => {
  expect(programs.sort()).toEqual(["client.test.js", "exporter.js", "own-law.js", "sse-reader.js", "virtual-time.js"]);
});

test.each(programs)("%s is short, writes no file, and does not parse metrics by itself", (name) => {
  const text = readFileSync(folder + name, "utf8");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(LINES_MOST);
  expect(text).not.toMatch(/node:fs|tmpdir|writeFile/);
  if (/metrics/.test(text)) expect(text).not.toMatch(/\.(match|matchAll|split|indexOf|exec)\(/);
});

const runs = programs.filter((name) => !name.includes(".test."));
/** Programs that also run in Node. In Bun every program runs. */
const inNode = sampled("library", runs, 2);

test.each(runs)(
  "%s prints the same in Node and in Bun",
  async (name) => {
    const runtimes = [process.execPath, ...(inNode.includes(name) ? ["node"] : [])];
    const [bun, ...node] = await Promise.all(
      runtimes.map((runtime) => run([runtime, `examples/programs/${name}`], root)),
    );
    expect(bun).toMatchObject({ code: 0, err: "" });
    expect(bun!.out).not.toBe("");
    for (const result of node) expect(result).toEqual(bun!);
  },
  60_000,
);

/** Do the programs of the documentation run, in Node as in Bun, and are they as short as it says? client.test.js: test/runners. */
import { beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { done, run } from "../packed.ts";
import { sampled } from "../size.ts";

const root = new URL("../../", import.meta.url).pathname;
const folder = `${root}examples/programs/`;
/** What is tested by the programs is none of them. */
const TESTED = ["client.js", "gateway.js"];
const programs = readdirSync(folder).filter((name) => !TESTED.includes(name));
const LINES_MOST = 30;

beforeAll(async () => {
  await done([process.execPath, "scripts/build.ts", "--library"], root);
}, 120_000);

test("five of them", () => {
  expect(programs.sort()).toEqual(["client.test.js", "exporter.js", "own-law.js", "sse-reader.js", "virtual-time.js"]);
});

test.each(programs)("%s is short, writes no file, and reads no page of metrics by itself", (name) => {
  const text = readFileSync(folder + name, "utf8");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(LINES_MOST);
  expect(text).not.toMatch(/node:fs|tmpdir|writeFile/);
  if (/metrics/.test(text)) expect(text).not.toMatch(/\.(match|matchAll|split|indexOf|exec)\(/);
});

const runs = programs.filter((name) => !name.includes(".test."));
/** In Bun all of them run each time. */
const inNode = sampled("library", runs, 2);

test.each(runs)(
  "%s says the same in Node and in Bun",
  async (name) => {
    const runtimes = [process.execPath, ...(inNode.includes(name) ? ["node"] : [])];
    const [bun, ...node] = await Promise.all(
      runtimes.map((runtime) => run([runtime, `examples/programs/${name}`], root)),
    );
    expect(bun).toMatchObject({ code: 0, err: "" });
    expect(bun!.out).not.toBe("");
    for (const one of node) expect(one).toEqual(bun!);
  },
  60_000,
);

/** Tests that the pages on `understudy check` agree with the code. */
import { expect, test } from "bun:test";
import { checkOptions } from "../../../src/cli/check/check-options.ts";

const read = (path: string) => Bun.file(new URL(`../../../${path}`, import.meta.url)).text();

test("every flag in docs/how-to/check.md is an option of the command", async () => {
  const page = await read("docs/how-to/check.md");
  const named = new Set([...page.matchAll(/`--(?:\[no-\])?([a-z-]+)/g)].map(([, name]) => name!));
  expect(named.size).toBeGreaterThan(5);
  expect([...named].filter((name) => !(name in checkOptions))).toEqual([]);
});

test("code blocks of docs/how-to/property-tests.md are from programs that tests run", async () => {
  const folder = new URL("../../../examples/programs/", import.meta.url).pathname;
  const programs = await Promise.all(
    ["exporter", "sse-reader", "own-law"].map((name) => Bun.file(`${folder}${name}.js`).text()),
  );
  const page = await read("docs/how-to/property-tests.md");
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block!);
  expect(blocks).toHaveLength(3);
  const unlike = blocks.map((block, i) => block.split("\n").filter((line) => !programs[i]!.split("\n").includes(line)));
  expect(unlike).toEqual([[], [], []]);
});

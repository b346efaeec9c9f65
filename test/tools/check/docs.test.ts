/** Does docs/check.md say what the tables say? Cure: `npx bun scripts/laws-table.ts`. */
import { expect, test } from "bun:test";
import { lawsMarkdown } from "../../../scripts/laws-markdown.ts";
import { checkOptions } from "../../../src/cli/check/check-options.ts";

const page = await Bun.file(new URL("../../../docs/check.md", import.meta.url)).text();

test("the list of laws is the program's own", () => {
  expect(/<!-- laws -->\n([\s\S]*?)\n<!-- \/laws -->/.exec(page)?.[1]).toBe(lawsMarkdown());
});

test("every option stands there, and none that is not", () => {
  const named = new Set([...page.matchAll(/`--(?:\[no-\])?([a-z-]+)/g)].map(([, name]) => name!));
  expect(Object.keys(checkOptions).filter((name) => !named.has(name))).toEqual([]);
  expect([...named].filter((name) => !(name in checkOptions))).toEqual([]);
});

test("its blocks of code are those of programs that are run", async () => {
  const folder = new URL("../../../examples/programs/", import.meta.url).pathname;
  const programs = await Promise.all(
    ["exporter", "sse-reader", "own-law"].map((name) => Bun.file(`${folder}${name}.js`).text()),
  );
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block!);
  expect(blocks).toHaveLength(3);
  const unlike = blocks.map((block, i) => block.split("\n").filter((line) => !programs[i]!.split("\n").includes(line)));
  expect(unlike).toEqual([[], [], []]);
});

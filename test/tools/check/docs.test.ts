/** Tests that docs/how-to/check.md agrees with the tables in the code. `npx bun scripts/laws-table.ts` updates it. */
import { expect, test } from "bun:test";
import { lawsMarkdown } from "../../../scripts/laws-markdown.ts";
import { checkOptions } from "../../../src/cli/check/check-options.ts";

const page = await Bun.file(new URL("../../../docs/how-to/check.md", import.meta.url)).text();

test("the list of laws in docs/how-to/check.md is the generated one", () => {
  expect(/<!-- laws -->\n([\s\S]*?)\n<!-- \/laws -->/.exec(page)?.[1]).toBe(lawsMarkdown());
});

test("docs/how-to/check.md lists exactly the options of the command", () => {
  const named = new Set([...page.matchAll(/`--(?:\[no-\])?([a-z-]+)/g)].map(([, name]) => name!));
  expect(Object.keys(checkOptions).filter((name) => !named.has(name))).toEqual([]);
  expect([...named].filter((name) => !(name in checkOptions))).toEqual([]);
});

test("code blocks of docs/how-to/check.md are from programs that tests run", async () => {
  const folder = new URL("../../../examples/programs/", import.meta.url).pathname;
  const programs = await Promise.all(
    ["exporter", "sse-reader", "own-law"].map((name) => Bun.file(`${folder}${name}.js`).text()),
  );
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block!);
  expect(blocks).toHaveLength(3);
  const unlike = blocks.map((block, i) => block.split("\n").filter((line) => !programs[i]!.split("\n").includes(line)));
  expect(unlike).toEqual([[], [], []]);
});

/** Does docs/check.md say what the tables say? Cure: `npx bun scripts/laws-table.ts`. */
import { expect, test } from "bun:test";
import { lawsMarkdown } from "../../scripts/laws-markdown.ts";
import { checkOptions } from "../../src/cli/check/check-options.ts";

const page = await Bun.file(new URL("../../docs/check.md", import.meta.url)).text();

test("the list of laws is the program's own", () => {
  expect(/<!-- laws -->\n([\s\S]*?)\n<!-- \/laws -->/.exec(page)?.[1]).toBe(lawsMarkdown());
});

test("every option stands there, and none that is not", () => {
  const named = new Set([...page.matchAll(/`--(?:\[no-\])?([a-z-]+)/g)].map(([, name]) => name!));
  expect(Object.keys(checkOptions).filter((name) => !named.has(name))).toEqual([]);
  expect([...named].filter((name) => !(name in checkOptions))).toEqual([]);
});

test("its ten lines are those of the example", async () => {
  const [, lines = ""] = /```js\n([\s\S]*?)```/.exec(page) ?? [];
  const example = await Bun.file(new URL("../../examples/testing.js", import.meta.url)).text();
  const code = lines.split("\n").filter((line) => line.trim() !== "");
  expect(code.length).toBeGreaterThan(8);
  for (const line of code) expect(example).toContain(line);
  for (const name of ["createServer", "requestMixes", "sendMix", "checkScrapes"]) expect(lines).toContain(`${name}(`);
});

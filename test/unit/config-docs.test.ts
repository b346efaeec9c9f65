/** Does the README's table of options say what the program does? Cure: `npx bun scripts/options-table.ts`. */
import { expect, test } from "bun:test";
import { optionsMarkdown } from "../../src/options/help.ts";

test("the README's table of options is the program's own", async () => {
  const readme = await Bun.file(new URL("../../README.md", import.meta.url)).text();
  const table = /<!-- options -->\n([\s\S]*?)\n<!-- \/options -->/.exec(readme)?.[1];
  expect(table).toBe(optionsMarkdown());
});

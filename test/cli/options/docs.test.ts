/** Does docs/reference/options.md's table of options say what the program does? Cure: `npx bun scripts/options-table.ts`. */
import { expect, test } from "bun:test";
import { optionsMarkdown } from "../../../src/cli/options/help.ts";

test("the table of options in docs/reference/options.md is the program's own", async () => {
  const page = await Bun.file(new URL("../../../docs/reference/options.md", import.meta.url)).text();
  const table = /<!-- options -->\n([\s\S]*?)\n<!-- \/options -->/.exec(page)?.[1];
  expect(table).toBe(optionsMarkdown());
});

/** Checks that the table in docs/options.md is current. `npx bun scripts/options-table.ts` updates it. */
import { expect, test } from "bun:test";
import { optionsMarkdown } from "../../../src/cli/options/help.ts";

test("the table in docs/options.md equals the generated one", async () => {
  const page = await Bun.file(new URL("../../../docs/options.md", import.meta.url)).text();
  const table = /<!-- options -->\n([\s\S]*?)\n<!-- \/options -->/.exec(page)?.[1];
  expect(table).toBe(optionsMarkdown());
});

/** Writes the options tables into docs/reference/options.md, docs/how-to/load.md and docs/servers/triton.md, between their markers. Tests compare. */
import { readFileSync, writeFileSync } from "node:fs";
import { loadOptions } from "../src/cli/load/load-options.ts";
import { optionsMarkdown } from "../src/cli/options/help.ts";
import { tritonServerOptions } from "../src/cli/options/triton-server-options.ts";

const between = /(<!-- options -->\n)[\s\S]*?(\n?<!-- \/options -->)/;
const tables = {
  "docs/reference/options.md": optionsMarkdown(),
  "docs/how-to/load.md": optionsMarkdown(loadOptions),
  "docs/servers/triton.md": optionsMarkdown(tritonServerOptions),
};
for (const [path, table] of Object.entries(tables)) {
  const file = new URL(`../${path}`, import.meta.url);
  const text = readFileSync(file, "utf8");
  if (!between.test(text)) throw new Error(`${path} lacks the markers <!-- options --> and <!-- /options -->`);
  writeFileSync(
    file,
    text.replace(between, (_, begin: string) => `${begin}${table}\n<!-- /options -->`),
  );
}

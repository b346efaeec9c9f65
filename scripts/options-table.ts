/** Writes the options table into the README, between its two markers; `test/unit/config-docs.test.ts` compares. */
import { readFileSync, writeFileSync } from "node:fs";
import { optionsMarkdown } from "../src/cli/help.ts";

const readme = new URL("../README.md", import.meta.url);
const text = readFileSync(readme, "utf8");
const between = /(<!-- options -->\n)[\s\S]*?(\n<!-- \/options -->)/;
if (!between.test(text)) throw new Error("README.md lacks the markers <!-- options --> and <!-- /options -->");
writeFileSync(
  readme,
  text.replace(between, (_, begin: string, end: string) => begin + optionsMarkdown() + end),
);

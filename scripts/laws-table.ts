/** Writes the list of laws into docs/how-to/check.md, between its two markers; `test/tools/check/docs.test.ts` compares. */
import { readFileSync, writeFileSync } from "node:fs";
import { lawsMarkdown } from "./laws-markdown.ts";

const page = new URL("../docs/how-to/check.md", import.meta.url);
const text = readFileSync(page, "utf8");
const between = /(<!-- laws -->\n)[\s\S]*?(\n<!-- \/laws -->)/;
if (!between.test(text)) throw new Error("docs/how-to/check.md lacks the markers <!-- laws --> and <!-- /laws -->");
writeFileSync(
  page,
  text.replace(between, (_, begin: string, end: string) => begin + lawsMarkdown() + end),
);

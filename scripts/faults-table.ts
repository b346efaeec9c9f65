/** Writes the list of faults into docs/reference/faults.md, between its two markers; `test/faults/docs.test.ts` compares. */
import { readFileSync, writeFileSync } from "node:fs";
import { faultsMarkdown } from "../src/faults/markdown.ts";

const page = new URL("../docs/reference/faults.md", import.meta.url);
const text = readFileSync(page, "utf8");
const between = /(<!-- faults -->\n)[\s\S]*?(\n<!-- \/faults -->)/;
if (!between.test(text)) throw new Error("docs/reference/faults.md lacks the markers <!-- faults --> and <!-- /faults -->");
writeFileSync(
  page,
  text.replace(between, (_, begin: string, end: string) => begin + faultsMarkdown() + end),
);

/**
 * Writes the tables of docs/explanation/timing.md, between their markers. `test/engine/timing/presets.sim.test.ts` compares. Takes some
 * seconds.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { pooledMarkdown, ratiosMarkdown } from "../bench/lib/measured-tables.ts";

const page = new URL("../docs/explanation/timing.md", import.meta.url);
let text = readFileSync(page, "utf8");
for (const [name, table] of [
  ["measured", ratiosMarkdown()],
  ["pools", pooledMarkdown()],
] as const) {
  const between = new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*?(\\n<!-- /${name} -->)`);
  if (!between.test(text)) throw new Error(`docs/explanation/timing.md lacks the markers <!-- ${name} --> and <!-- /${name} -->`);
  text = text.replace(between, (_, begin: string, end: string) => begin + table + end);
}
writeFileSync(page, text);

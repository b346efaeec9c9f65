/**
 * Writes the generated text of the docs, made from tables of the code, between its markers: `npx bun run docs`. With paths as
 * arguments, writes only these pages. With `--check`, writes nothing, and exits with 1 if a page is out of date. Takes some
 * seconds.
 */
import { writeFileSync } from "node:fs";
import { PAGES, pageTexts } from "./docs/pages.ts";

const words = process.argv.slice(2);
const paths = words.filter((word) => word !== "--check");
const isCheck = paths.length < words.length;
const unknown = paths.filter((path) => !(path in PAGES));
if (unknown.length > 0) throw new Error(`no page with generated text: ${unknown.join(", ")}`);

for (const path of paths.length > 0 ? paths : Object.keys(PAGES)) {
  const { old, now } = pageTexts(path);
  if (now === old) continue;
  console.log(`${path}: ${isCheck ? "out of date; cure: npx bun run docs" : "written"}`);
  if (isCheck) process.exitCode = 1;
  else writeFileSync(new URL(`../${path}`, import.meta.url), now);
}

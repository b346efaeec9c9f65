/** `bun run golden -- [--mutate SEED] [DIR or FILE ...]`: are we decision-identical to these recordings? Ends with `N passed, N failed`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { firstDifference, sideBySide } from "./compare.ts";
import { mutate } from "./mutate.ts";
import { type Found, recordingsAt } from "./places.ts";

const words = process.argv.slice(2);
const at = words.indexOf("--mutate");
const seed = at < 0 ? null : Number(words.splice(at, 2)[1] ?? Number.NaN);
if (seed !== null && !Number.isInteger(seed)) fail("--mutate takes a whole number");
const unknown = words.find((word) => word.startsWith("-"));
if (unknown !== undefined) fail(`${unknown}: unknown; there are --mutate SEED, and files and folders`);

const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build/core.wasm")));
const places = words.length ? words : [import.meta.dir];
let passed = 0;
let failed = 0;
for (const found of recordingsAt(places)) {
  const verdict = judge(found);
  if (verdict === null) passed++;
  else {
    failed++;
    console.log(verdict);
  }
}
if (passed + failed === 0) fail(`no recordings (*.jsonl, *.json with scenarios, also .gz) in ${places.join(" ")}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

/** null when it passes; with --mutate it passes when its mutant is noticed. */
function judge({ name, load }: Found): string | null {
  try {
    const recording = load();
    if (seed === null) {
      const difference = firstDifference(recording, module);
      return difference && `${name}: ${sideBySide(difference)}`;
    }
    const changed = mutate(recording, seed);
    return firstDifference(recording, module) ? null : `${name}: the mutant was not noticed: ${changed}`;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return why.startsWith(name) ? why : `${name}: ${why}`;
  }
}

function fail(why: string): never {
  console.error(`golden: ${why}`);
  process.exit(2);
}

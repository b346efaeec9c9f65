/** `bun run golden -- [--mutate SEED] [DIR or FILE ...]`: are we decision-identical to these traces? Ends with `N passed, N failed`. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { firstDifference, sideBySide } from "./compare.ts";
import { mutate } from "./mutate.ts";
import { readTrace } from "./trace.ts";

const words = process.argv.slice(2);
const at = words.indexOf("--mutate");
const seed = at < 0 ? null : Number(words.splice(at, 2)[1]);
if (seed !== null && !Number.isInteger(seed)) fail("--mutate takes a whole number");

const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build/core.wasm")));
const places = words.length ? words : [join(import.meta.dir, "vllm-0.33")];
const files = places.flatMap(tracesIn);
if (!files.length) fail(`no traces (*.jsonl, *.jsonl.gz) in ${places.join(" ")}`);
let passed = 0;
for (const file of files) {
  const verdict = judge(file);
  if (verdict === null) passed++;
  else console.log(`${file}: ${verdict}`);
}
console.log(`${passed} passed, ${files.length - passed} failed`);
process.exit(passed === files.length ? 0 : 1);

/** null when the trace passes; with --mutate a trace passes when its mutant is noticed. */
function judge(file: string): string | null {
  try {
    const trace = readTrace(readFileSync(file), file);
    if (seed === null) {
      const difference = firstDifference(trace, module);
      return difference && sideBySide(difference);
    }
    const changed = mutate(trace, seed);
    return firstDifference(trace, module) ? null : `the mutant was not noticed: ${changed}`;
  } catch (error) {
    return String(error);
  }
}

function tracesIn(place: string): string[] {
  const stat = statSync(place, { throwIfNoEntry: false });
  if (!stat) fail(`${place}: no such file or folder`);
  if (!stat!.isDirectory()) return [place];
  return readdirSync(place)
    .filter((name) => /\.jsonl(\.gz)?$/.test(name))
    .sort()
    .map((name) => join(place, name));
}

function fail(why: string): never {
  console.error(`golden: ${why}`);
  process.exit(2);
}

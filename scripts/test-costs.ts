/**
 * How long does each test file take? Runs each one alone, the sample where it has two sizes, and writes seconds into
 * test/costs.json, by which scripts/test.ts shares files out. Paths as arguments: those alone, the others stay.
 */
import { existsSync, writeFileSync } from "node:fs";
import { type Costs, costs, filesOf, root, run, testFiles } from "./test-lanes.ts";

const paths = process.argv.slice(2);
if (!(await run([process.execPath, "scripts/build.ts", "--library"])).ok)
  throw new Error("the library cannot be built");
const found: Record<string, number> = {};
const cpu: [file: string, cpuS: number][] = [];
for (const file of filesOf(paths.length > 0 ? paths : ["test"])) {
  const { wallS, cpuS, failed } = await testFiles([file]);
  console.log(`${file}: ${wallS.toFixed(1)} s, ${cpuS.toFixed(1)} s of CPU${failed > 0 ? ", FAILED" : ""}`);
  found[file] = Math.round(wallS * 10) / 10;
  cpu.push([file, cpuS]);
}
const all: Costs = { ...costs, ...found };
const there = Object.entries(all).filter(([file]) => existsSync(root + file));
writeFileSync(`${root}test/costs.json`, `${JSON.stringify(Object.fromEntries(there.toSorted()), null, 2)}\n`);
const sum = cpu.reduce((total, [, cpuS]) => total + cpuS, 0);
console.log(`${cpu.length} files, ${sum.toFixed(0)} s of CPU`);

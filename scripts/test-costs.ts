/**
 * Measures how long each test file takes. Runs each file alone, with its sample if the test has two sizes. Writes the seconds
 * into test/costs.json, by which scripts/test.ts distributes files. With paths as arguments, only those files are measured, and
 * the other files keep their values.
 */
import { existsSync, writeFileSync } from "node:fs";
import { type Costs, costs, filesOf, root, run, testFiles } from "./test-lanes.ts";

const paths = process.argv.slice(2);
if (!(await run([process.execPath, "scripts/build.ts", "--library"])).ok)
  throw new Error("the library cannot be built");
const measured: Record<string, number> = {};
const cpu: [file: string, cpuS: number][] = [];
for (const file of filesOf(paths.length > 0 ? paths : ["test"])) {
  const { wallS, cpuS, failed } = await testFiles([file]);
  console.log(`${file}: ${wallS.toFixed(1)} s, ${cpuS.toFixed(1)} s of CPU${failed > 0 ? ", FAILED" : ""}`);
  measured[file] = Math.round(wallS * 10) / 10;
  cpu.push([file, cpuS]);
}
const all: Costs = { ...costs, ...measured };
const existing = Object.entries(all).filter(([file]) => existsSync(root + file));
writeFileSync(`${root}test/costs.json`, `${JSON.stringify(Object.fromEntries(existing.toSorted()), null, 2)}\n`);
const sum = cpu.reduce((total, [, cpuS]) => total + cpuS, 0);
console.log(`${cpu.length} files, ${sum.toFixed(0)} s of CPU`);

/**
 * `npx bun run golden triton DIR [--only LIST] [--mutate SEED]` plays recordings of a real Triton against our servers, with a
 * new server per scenario. DIR contains `http/`, `grpc/`, `metrics/` or the recordings themselves. LIST is names or parts of
 * names, separated by commas, or a file with one per line. Each answered step, each metrics scenario, and each name without a
 * recording counts as one case. `--mutate` first changes one value of each expectation; then every case must fail.
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { endShared } from "../at-end.ts";
import { namesOf } from "../golden/only.ts";
import { mutated } from "./golden/mutate.ts";
import { playAll } from "./golden/play.ts";
import { readRecordings } from "./golden/recordings.ts";

const USAGE = "usage: npx bun run golden triton DIR [--only LIST] [--mutate SEED]";

function fail(why: string): never {
  console.error(`golden triton: ${why}\n${USAGE}`);
  process.exit(2);
}

function given() {
  try {
    return parseArgs({ options: { only: { type: "string" }, mutate: { type: "string" } }, allowPositionals: true });
  } catch (error) {
    return fail((error as Error).message);
  }
}

const { values, positionals } = given();
const [dir, ...rest] = positionals;
if (dir === undefined || rest.length > 0) fail("one folder is needed");
if (!existsSync(dir)) fail(`${dir}: no such folder`);
if (values.mutate !== undefined && !/^\d+$/.test(values.mutate)) fail(`--mutate ${values.mutate}: a whole number`);
const { scenarios, models } = readRecordings(dir);
const only = values.only === undefined ? null : [...namesOf(values.only)];
const wanted = only ? scenarios.filter(({ name }) => only.some((part) => name.includes(part))) : scenarios;
if (wanted.length === 0) fail(`no recordings${only ? ` of ${only.join(", ")}` : ""} in ${dir}`);
const missing = (only ?? []).filter((part) => !wanted.some(({ name }) => name.includes(part)));
for (const name of missing) console.log(`absent ${name}`);
const seed = values.mutate === undefined ? null : Number(values.mutate);

let passed = 0;
let failed = missing.length;
const all = wanted.map((one) => (seed === null ? one : mutated(one, seed)));
for await (const { name, wrong } of playAll(all, models, console.log, { once: seed !== null })) {
  if (wrong === null) passed++;
  else failed++;
  if (wrong !== null && seed === null) console.log(`failed ${name}\n  ${wrong}`);
  if (wrong === null && seed !== null) console.log(`passed although changed: ${name}`);
}
await endShared();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = Number((seed === null ? failed : passed + missing.length) > 0);

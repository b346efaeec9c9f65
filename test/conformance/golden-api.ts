/**
 * Plays every recorded exchange of a folder against a live server: `npx bun run golden api DIR [--only LIST] [--mutate
 * SEED]`. LIST is a file with a name per line, where a `#` starts a comment, or names separated by commas. The order of
 * header lines is compared, too. With `--mutate` one value of each recording is changed first; then every case must fail.
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { endShared } from "../at-end.ts";
import { namesOf } from "../golden/only.ts";
import { readFolder } from "./api/cases.ts";
import { mutated } from "./api/mutate.ts";
import { playAll } from "./api/play.ts";

const USAGE = "usage: npx bun run golden api DIR [--only LIST] [--mutate SEED]";

function fail(why: string): never {
  console.error(`golden api: ${why}\n${USAGE}`);
  process.exit(2);
}

function commandLine() {
  try {
    const options = {
      only: { type: "string" },
      mutate: { type: "string" },
    } as const;
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    return fail((error as Error).message);
  }
}

const { values, positionals } = commandLine();
const [dir, ...rest] = positionals;
if (dir === undefined || rest.length > 0) fail("one folder is needed");
if (!existsSync(dir)) fail(`${dir}: no such folder`);
if (values.mutate !== undefined && !/^\d+$/.test(values.mutate))
  fail(`--mutate ${values.mutate}: must be a whole number`);
const only = values.only === undefined ? null : namesOf(values.only);
const folder = readFolder(dir, only);
const missing = [...(only ?? [])].filter((name) => !folder.cases.some((recorded) => recorded.name === name));
if (folder.cases.length + missing.length === 0) fail(`no recorded exchanges in ${dir}`);
for (const name of missing) console.log(`absent ${name}`);
const seed = values.mutate === undefined ? null : Number(values.mutate);
const cases = seed === null ? folder.cases : folder.cases.map((recorded) => mutated(recorded, seed));

let passed = 0;
let failed = missing.length;
await playAll({ ...folder, cases }, ({ name, wrong }) => {
  if (wrong === null) passed++;
  else failed++;
  if (wrong === null && seed !== null) console.log(`passed although changed: ${name}`);
  if (wrong !== null && seed === null) console.log(`failed ${name}\n  ${wrong}`);
});
await endShared();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = Number((seed === null ? failed : passed + missing.length) > 0);

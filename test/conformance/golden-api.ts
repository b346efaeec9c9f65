/**
 * `npx bun run golden:api -- DIR [--only LIST] [--mutate SEED]`: plays every recorded exchange of a folder
 * against a live server. LIST is a file with a name per line (what follows a `#` is a comment), or names separated by
 * commas. The order of header lines is compared too. With `--mutate` one thing of each recording is changed first: then
 * every case must fail.
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { endShared } from "../at-end.ts";
import { namesOf } from "../golden/only.ts";
import { readFolder } from "./api/cases.ts";
import { mutated } from "./api/mutate.ts";
import { playAll } from "./api/play.ts";

const USAGE = "usage: npx bun run golden:api -- DIR [--only LIST] [--mutate SEED]";

function fail(why: string): never {
  console.error(`golden:api: ${why}\n${USAGE}`);
  process.exit(2);
}

function given() {
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

const { values, positionals } = given();
const [dir, ...rest] = positionals;
if (dir === undefined || rest.length > 0) fail("one folder is needed");
if (!existsSync(dir)) fail(`${dir}: no such folder`);
if (values.mutate !== undefined && !/^\d+$/.test(values.mutate)) fail(`--mutate ${values.mutate}: a whole number`);
const only = values.only === undefined ? null : namesOf(values.only);
const folder = readFolder(dir, only);
const missing = [...(only ?? [])].filter((name) => !folder.cases.some((one) => one.name === name));
if (folder.cases.length + missing.length === 0) fail(`no recorded exchanges in ${dir}`);
for (const name of missing) console.log(`absent ${name}`);
const seed = values.mutate === undefined ? null : Number(values.mutate);
const cases = seed === null ? folder.cases : folder.cases.map((one) => mutated(one, seed));

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

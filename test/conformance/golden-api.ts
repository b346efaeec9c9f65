/**
 * Plays every recorded exchange of a folder against a live server: `npx bun run golden api DIR [--only LIST] [--mutate
 * SEED]`. LIST is a file with a name per line, where a `#` starts a comment, or names separated by commas. The order of
 * header lines is compared, too. With `--mutate` one value of each recording is changed first; then every case must fail.
 */
import { commandLine, usage, verdict } from "../golden/exchanges-command.ts";
import { readFolder } from "./api/cases.ts";
import { mutated } from "./api/mutate.ts";
import { playAll } from "./api/play.ts";

const { dir, only, seed } = commandLine("api");
const folder = readFolder(dir, only);
const missing = [...(only ?? [])].filter((name) => !folder.cases.some((recorded) => recorded.name === name));
if (folder.cases.length + missing.length === 0) usage("api", `no recorded exchanges in ${dir}`);
const cases = seed === null ? folder.cases : folder.cases.map((recorded) => mutated(recorded, seed));
const { add, end } = verdict(missing, seed !== null);
await playAll({ ...folder, cases }, add);
await end();

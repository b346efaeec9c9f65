/**
 * Builds the program that hosts servers for tests (test/host.ts), with the same bundler and settings as the bundle that users
 * install. Only tests use this program.
 */
import { cpSync, rmSync } from "node:fs";
import { BUILT, program } from "./bundles.ts";

const root = new URL("../", import.meta.url).pathname;
const to = `${root}build/hosted`;
rmSync(to, { recursive: true, force: true });
for (const name of BUILT) cpSync(`${root}build/${name}`, `${to}/build/${name}`);
await program({ host: "test/host.ts" }, `${to}/server`);

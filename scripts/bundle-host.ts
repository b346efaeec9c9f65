/**
 * The servers that tests share a process of (test/host.ts), from the bundle that users get: the same bundler with the same
 * settings, one entry more, which is nobody's but the tests'.
 */
import { cpSync, rmSync } from "node:fs";
import { BUILT, program } from "./bundles.ts";

const root = new URL("../", import.meta.url).pathname;
const to = `${root}build/hosted`;
rmSync(to, { recursive: true, force: true });
for (const name of BUILT) cpSync(`${root}build/${name}`, `${to}/build/${name}`);
await program({ host: "test/host.ts" }, `${to}/server`);

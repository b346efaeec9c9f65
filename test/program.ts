/**
 * Which program do tests start? The sources; in a run of all tests the bundle that users install, which scripts/test.ts has
 * just built: its start takes a third less processor time, and hundreds of tests start one.
 */
export const main = process.env.TEST_PROGRAM ?? new URL("../src/main.ts", import.meta.url).pathname;
/** Servers that share a process (hosted.ts); the bundle of all tests' run is made as that of the program is. */
export const host = process.env.TEST_HOST ?? new URL("./host.ts", import.meta.url).pathname;

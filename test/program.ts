/**
 * Which program do tests start? The sources; in a run of all tests the bundle that users install, which scripts/test.ts has
 * just built: its start takes a third less processor time, and hundreds of tests start one.
 */
export const main = process.env.TEST_PROGRAM ?? new URL("../src/main.ts", import.meta.url).pathname;

/**
 * Names the program that tests start: the sources, or, in a run of all tests, the bundle that users install. Hundreds of tests
 * start the program, and the start of the bundle takes a third less CPU time. scripts/test.ts builds the bundle first.
 */
export const main = process.env.TEST_PROGRAM ?? new URL("../src/main.ts", import.meta.url).pathname;
/** Value of TEST_HOST with which each server gets a process of its own, started by the program. */
export const SEPARATE = "separate";
/**
 * Path of the program that hosts servers in one process (hosted.ts). In a run of all tests it is bundled like the main
 * program.
 */
export const host = process.env.TEST_HOST ?? new URL("./host.ts", import.meta.url).pathname;

/** The settings of the runtime that a single file gives to its commands, and the command line of its workers outside of a single file. */
import { expect, test } from "bun:test";
import oneProcessor from "../../bin/one-processor-options.json";
import { runtimeSettingsOf, workerCommand } from "../../src/cli/single-file.ts";

test("only a server on one processor has settings, and only replay and load among the other commands", () => {
  expect(runtimeSettingsOf("serve", 1)).toEqual(oneProcessor);
  expect(runtimeSettingsOf("serve", 2)).toEqual({});
  expect(Object.keys(runtimeSettingsOf("replay", 2))).toContain("BUN_JSC_useWasmIPInt");
  expect(Object.keys(runtimeSettingsOf("load", 1))).toContain("MIMALLOC_PURGE_DELAY");
  for (const command of ["check", "help", undefined]) expect(runtimeSettingsOf(command, 1)).toEqual({});
});

test("outside of a single file, a worker is a program of its own", () => {
  expect(workerCommand("worker.ts")).toEqual([process.execPath, ...process.execArgv, "worker.ts"]);
});

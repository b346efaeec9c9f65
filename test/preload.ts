/** What holds for every test file: properties have a known seed, and end themselves before a runner that has time for them. */
import { afterAll } from "bun:test";
import fc from "fast-check";
import { endShared } from "./at-end.ts";

// The runner's limit cannot be set here: a default set in a preloaded file holds for the first test file only. It comes
// from the command line (scripts/test.ts), or from `setDefaultTimeout` in a file whose properties take long.
fc.configureGlobal({
  seed: Number(process.env.FC_SEED ?? 1),
  // The whole of a test of two sizes (test/size.ts) takes as long as its runs do.
  interruptAfterTimeLimit: process.env.TEST_WHOLE ? 3_600_000 : 45_000,
  markInterruptAsFailure: true,
});

// After the last file.
afterAll(endShared);

/** Sets what holds for every test file: properties have a known seed, and stop before the test runner's timeout. */
import { afterAll } from "bun:test";
import fc from "fast-check";
import { endShared } from "./at-end.ts";

// The timeout of a test cannot be set here, because a default set in a preloaded file holds only for the first test file. It
// comes from the command line (scripts/test.ts), or from `setDefaultTimeout` in a file with slow properties.
fc.configureGlobal({
  seed: Number(process.env.FC_SEED ?? 1),
  // The whole run of a test of two sizes (test/size.ts) has no time limit of its own.
  interruptAfterTimeLimit: process.env.TEST_WHOLE ? 3_600_000 : 45_000,
  markInterruptAsFailure: true,
});

// Runs after the last file.
afterAll(endShared);

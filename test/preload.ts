/** What holds for every test file: a known seed, and time enough for a machine that does other things as well. */
import { setDefaultTimeout } from "bun:test";
import fc from "fast-check";

// A property that outlives the runner's limit dies without its seed, so it ends itself before that.
setDefaultTimeout(60_000);
fc.configureGlobal({
  seed: Number(process.env.FC_SEED ?? 1),
  interruptAfterTimeLimit: 45_000,
  markInterruptAsFailure: true,
});

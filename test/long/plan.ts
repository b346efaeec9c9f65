/**
 * Sets the number of inputs and the duration of a long test: those of the sample, of the whole, or of the command line of
 * scripts/test-whole.ts.
 */
import { sized } from "../size.ts";

export { seed } from "../size.ts";

const { TEST_INPUTS, TEST_SECONDS } = process.env;

export const inputs = Number(TEST_INPUTS ?? 200_000);
/** Time limit in seconds for mutated requests, and for schemathesis. */
export const seconds = Number(TEST_SECONDS ?? sized("long", { sample: 2, whole: 1200 }));

/** How long is a long test? Its inputs and seconds: the sample's, the whole's, or what scripts/test-whole.ts was told. */
import { sized } from "../size.ts";

export { seed } from "../size.ts";

const { TEST_INPUTS, TEST_SECONDS } = process.env;

export const inputs = Number(TEST_INPUTS ?? 200_000);
/** Most seconds of spoiled requests, and of schemathesis. */
export const seconds = Number(TEST_SECONDS ?? sized("long", { sample: 2, whole: 1200 }));

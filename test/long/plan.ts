/** How long is a long test? Its seed, inputs and seconds: scripts/test-long.ts puts them into the environment. */
const given = (name: string, otherwise: number): number => Number(process.env[`UNDERSTUDY_LONG_${name}`] ?? otherwise);

export const seed = given("SEED", 1);
export const inputs = given("INPUTS", 200_000);
/** Of spoiled requests at most, and of schemathesis. */
export const seconds = given("SECONDS", 1200);

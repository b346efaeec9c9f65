/** What may a test author ask of a server? Here in Bun, in this process; test/library-node.test.ts runs the same in Node. */
import { expect, test } from "bun:test";
import { createServer } from "../../src/library/bun.ts";
import { SCENARIOS } from "../library-scenarios.ts";

test.each(SCENARIOS)("%s", async (_, scenario, expected) => {
  expect(await scenario(createServer)).toEqual(expected);
});

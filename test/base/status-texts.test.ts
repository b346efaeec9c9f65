/** Compares the table of reason phrases with that of Node. */
import { expect, test } from "bun:test";
import { STATUS_CODES } from "node:http";
import { STATUS_TEXTS } from "../../src/base/status-texts.ts";

test("the table of reason phrases equals that of node:http", () => {
  expect(STATUS_TEXTS as object).toEqual(STATUS_CODES);
});

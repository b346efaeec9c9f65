/** Tests that thousands of items due at once end in several turns of the event loop, each once. */
import { test } from "bun:test";
import { Deadlines } from "../../../src/wire/http/deadlines.ts";
import { DUE_US, expectTurns } from "../due-at-once.ts";

test("16,000 due items end in turns of one millisecond; one that is forgotten meanwhile does not expire", () => {
  expectTurns(({ now, at }) => {
    const deadlines = new Deadlines(DUE_US, { nowUs: now, after: (us, act) => at(now() + us, act) });
    return (item) => {
      deadlines.watch(item);
      return () => deadlines.forget(item);
    };
  });
});

/** Tests that thousands of calls whose deadline passes at once end in several turns of the event loop, each once. */
import { test } from "bun:test";
import { CallDeadlines } from "../../../src/wire/grpc/deadlines.ts";
import { DUE_US, expectTurns } from "../due-at-once.ts";

test("16,000 due calls end in turns of one millisecond; one that is cancelled meanwhile does not expire", () => {
  expectTurns((clock) => {
    const deadlines = new CallDeadlines(clock);
    return (item) => deadlines.watch(item, DUE_US);
  });
});

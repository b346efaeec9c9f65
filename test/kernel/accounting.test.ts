/** Tests that a request whose end cannot be counted still ends: its ticket reports the error and completes the other steps. */
import { expect, spyOn, test } from "bun:test";
import * as unexpected from "../../src/base/unexpected.ts";
import type { Outcome } from "../../src/engine/interface/types.ts";
import { CountedOnce } from "../../src/kernel/accounting.ts";

test.each(["settled", "told", "stream"])("a ticket whose %s throws settles all the same, once", (wrong) => {
  const logged = spyOn(unexpected, "logUnexpected").mockImplementation(() => {});
  const done: string[] = [];
  const note = (event: string) => {
    done.push(event);
    if (event === wrong) throw new Error(`planted in ${event}`);
  };
  try {
    const ticket = new CountedOnce((outcome: Outcome) => note(outcome === "stop" ? "settled" : "another outcome"));
    ticket.tell(() => note("told"));
    ticket.streams({ stream: (by: number) => by < 0 && note("stream") } as never, null);
    ticket.settle("stop");
    ticket.settle("error");
    expect(done).toEqual(["settled", "told", "stream"]);
    expect(`${logged.mock.calls}`).toContain(`planted in ${wrong}`);
  } finally {
    logged.mockRestore();
  }
});

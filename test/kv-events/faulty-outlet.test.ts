/** Tests the outlet of disturbed batches in simulated time: late batches, cut replays, their limits. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { kvFaultPlan } from "../../src/kv-events/fault-plan.ts";
import { KvEventFaults } from "../../src/kv-events/faults.ts";
import { FaultyOutlet } from "../../src/kv-events/faulty-outlet.ts";
import { END_SEQUENCE, ReplayBuffer, sequenceFrame } from "../../src/kv-events/replay.ts";
import { pacing } from "../../src/wire/http/deadlines.ts";

const EMPTY = Buffer.alloc(0);

function outletOf(plan: string) {
  const clock = new VirtualClock();
  const sent: string[] = [];
  const outlet = new FaultyOutlet(new KvEventFaults(kvFaultPlan(plan)!, 0), pacing(clock), {
    send: ({ sequence }) => sent.push(`${sequence}@${clock.now() / 1000}`),
    keep: () => {},
    clearKept: () => {},
  });
  return { clock, outlet, sent };
}

test("a late batch holds back those after it, in their order", () => {
  const { clock, outlet, sent } = outletOf("late@1,late-ms=500");
  for (let number = 0; number < 4; number++) {
    outlet.publish(number, EMPTY);
    clock.advanceBy(100_000);
  }
  clock.drain();
  outlet.publish(4, EMPTY);
  expect(sent).toEqual(["0@0", "1@600", "2@600", "3@600", "4@600"]);
});

test("at most 10,000 late batches wait", () => {
  const { outlet, sent } = outletOf("late=1");
  for (let number = 0; number < 10_010; number++) outlet.publish(number, EMPTY);
  expect(sent).toEqual(Array.from({ length: 10 }, (_, at) => `${at}@0`));
  outlet.close();
  expect(sent.length).toBe(10_010);
});

test("a cut replay has no end marker, and the next request begins anew", () => {
  const { outlet } = outletOf("replay-cut@2");
  const got: string[] = [];
  const buffer = new ReplayBuffer(
    100,
    EMPTY,
    outlet.replaySender((_, frames) => {
      got.push(END_SEQUENCE.equals(frames[2]!) ? "end" : `${Buffer.from(frames[2]!).readBigUInt64BE()}`);
      return true;
    }),
  );
  for (let sequence = 0; sequence < 9; sequence++) buffer.keep(sequence, EMPTY);
  for (const start of [0, 4]) buffer.requested(Buffer.from("a"), [EMPTY, sequenceFrame(start)]);
  expect(got).toEqual(["0", "1", "4", "5"]);
});

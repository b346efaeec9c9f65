/** Tests when a replay sends later turns of conversations, and how many may wait. */
import { describe, expect, test } from "bun:test";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { TraceArrivals, WAITING_IDS_MOST, WAITING_MOST } from "../../../src/tools/replay/arrivals.ts";
import type { TraceRequest } from "../../../src/workloads/trace.ts";

const turn = (line: number, conversation: string, more: Partial<TraceRequest> = {}): TraceRequest => ({
  ...{ line, arrivalUs: 0, promptTokens: 1, outputTokens: 1, blockIds: null, conversation },
  ...more,
});

test("a later turn is sent after the pause that follows the answer, and not before its time", () => {
  const clock = new VirtualClock();
  const sent: [line: number, atUs: number][] = [];
  const requests = [
    turn(1, "a"),
    turn(2, "a", { follows: true, thinkUs: 50 }),
    turn(3, "a", { follows: true, arrivalUs: 500 }),
    turn(4, "b", { follows: true, arrivalUs: 20 }),
  ];
  const send = (request: TraceRequest) => {
    sent.push([request.line, clock.now()]);
    arrivals.sent(request);
    clock.at(clock.now() + 100, () => arrivals.ended(request.conversation));
  };
  const arrivals = new TraceArrivals({ requests: requests[Symbol.iterator](), clock, send });
  arrivals.advance();
  send(arrivals.next!);
  arrivals.advance();
  expect([arrivals.next, arrivals.hasMore]).toEqual([undefined, true]);
  clock.drain();
  // The fourth request is the first one of its conversation, so it does not wait.
  expect(sent).toEqual([
    [1, 0],
    [4, 20],
    [2, 150],
    [3, 500],
  ]);
  expect(arrivals.hasMore).toBe(false);
});

describe.each([
  ["turns", WAITING_MOST, null],
  ["hash ids", 1, Array(WAITING_IDS_MOST).fill(0)],
])("limit by %s", (_, most, blockIds) => {
  test("the number of waiting turns is limited, and none is lost", () => {
    const clock = new VirtualClock();
    let read = 0;
    let sent = 0;
    const total = most + 10;
    const requests = (function* () {
      for (; read < total; read++) yield turn(read, "a", { follows: read > 0, blockIds: read > 0 ? blockIds : null });
    })();
    const send = (request: TraceRequest) => {
      sent++;
      arrivals.sent(request);
      clock.at(clock.now() + 1, () => arrivals.ended("a"));
    };
    const arrivals = new TraceArrivals({ requests, clock, send });
    arrivals.advance();
    send(arrivals.next!);
    arrivals.advance();
    expect(read).toBe(most);
    clock.drain();
    expect([sent, arrivals.hasMore]).toEqual([total, false]);
  });
});

/** Tests the result of a drain whose requests end just in time, or just too late. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import { endsBy } from "../../../../src/servers/triton/models/draining.ts";

test.each([
  [15_000, true],
  [15_001, false],
  [0, true],
])("the drain of requests that end at %d of 15,000 us returns %p", async (endUs, inTime) => {
  const clock = new VirtualClock();
  const server = { live: 1 };
  clock.at(endUs, () => (server.live = 0));
  clock.advanceTo(0);
  const ended = endsBy(15_000, server, clock);
  for (let steps = 0; steps < 4; steps++) {
    clock.advanceBy(5000);
    await Promise.resolve();
    await Promise.resolve();
  }
  expect(await ended).toBe(inTime);
});

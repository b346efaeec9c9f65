/** Tests that unfinished requests stay within their limit, and that each paused one is resumed or dropped in the end. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { type UnfinishedOwner, UnfinishedRequests } from "../../../src/wire/http/unfinished.ts";

const MOST = 1000;
const SECOND_US = 1_000_000;

class Sender implements UnfinishedOwner {
  paused = false;
  gaveWay = false;
  bytes = 0;
  /** Position in the order in which requests began. */
  order = 0;

  pause(): void {
    expect(this.paused).toBe(false);
    this.paused = true;
  }

  resume(): void {
    expect(this.paused).toBe(true);
    this.paused = false;
  }

  giveWay(): void {
    this.gaveWay = true;
    this.bytes = 0;
  }
}

function world() {
  const clock = new VirtualClock();
  const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
  return { clock, unfinished: new UnfinishedRequests(timer, { most: MOST }) };
}

test("with any pattern of arrivals: the sum is right, paused senders are resumed or dropped, the oldest first", () => {
  const senders = fc.nat({ max: 7 });
  const act = fc.oneof(
    fc.record({ what: fc.constant("comes" as const), who: senders, bytes: fc.integer({ min: 1, max: 400 }) }),
    fc.record({ what: fc.constant("ends" as const), who: senders }),
    fc.record({ what: fc.constant("waits" as const), us: fc.integer({ min: 1, max: 700_000 }) }),
  );
  let paused = 0;
  let gaveWay = 0;
  fc.assert(
    fc.property(fc.array(act, { minLength: 20, maxLength: 120 }), (acts) => {
      const { clock, unfinished } = world();
      let order = 0;
      const all = Array.from({ length: 8 }, () => new Sender());
      const sum = () => all.reduce((bytes, one) => bytes + one.bytes, 0);
      for (const one of acts) {
        const before = all.filter(({ bytes }) => bytes > 0).sort((a, b) => a.order - b.order);
        if (one.what === "waits") clock.advanceTo(clock.now() + one.us);
        else {
          const sender = all[one.who]!;
          if (one.what === "ends") {
            sender.bytes = 0;
            unfinished.leaves(sender);
          } else if (!sender.paused) {
            if (sender.bytes === 0) sender.order = ++order;
            sender.bytes += one.bytes;
            unfinished.holds(sender, sender.bytes);
          }
        }
        expect(unfinished.bytes).toBe(sum());
        // Above the limit, the excess is at most one read from a sender that is too young to be dropped.
        expect(sum()).toBeLessThanOrEqual(2 * MOST);
        const gone = before.filter((sender) => sender.gaveWay);
        expect(gone).toEqual(before.slice(0, gone.length));
        gaveWay += gone.length;
        for (const sender of all) {
          if (sender.paused) {
            paused++;
            expect(sender.bytes).toBeGreaterThan(0);
          }
          sender.gaveWay = false;
        }
      }
      // Without more data nobody stays paused, because old requests are dropped.
      clock.advanceTo(clock.now() + 2 * SECOND_US);
      expect(all.filter((sender) => sender.paused)).toEqual([]);
      expect(sum()).toBeLessThanOrEqual(MOST);
    }),
  );
  expect(paused).toBeGreaterThan(100);
  expect(gaveWay).toBeGreaterThan(100);
});

test("a request younger than a second waits for the others and is not dropped for them", () => {
  const { clock, unfinished } = world();
  const [first, second] = [new Sender(), new Sender()];
  unfinished.holds(first, MOST);
  unfinished.holds(second, 10);
  expect([first.gaveWay, second.gaveWay, second.paused]).toEqual([false, false, true]);
  unfinished.leaves(first);
  expect(second.paused).toBe(false);
  expect(unfinished.bytes).toBe(10);
  clock.advanceTo(SECOND_US);
  expect(second.gaveWay).toBe(false);
});

/** Are the bytes of requests that are not whole bounded in sum, and is nobody forgotten over it? */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { UnfinishedRequests, type UnfinishedRequestOwner } from "../../../src/wire/http/unfinished.ts";

const MOST = 1000;
const SECOND_US = 1_000_000;

class Sender implements UnfinishedRequestOwner {
  paused = false;
  gaveWay = false;
  bytes = 0;
  /** Place among those that began. */
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

test("whatever comes, and however slowly: the sum is kept, who is read no more goes on or gives way, the oldest first", () => {
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
        // Beyond the limit at most what one read brings, of those who may not give way yet.
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
      // Left alone, nobody stays paused: room comes by giving way.
      clock.advanceTo(clock.now() + 2 * SECOND_US);
      expect(all.filter((sender) => sender.paused)).toEqual([]);
      expect(sum()).toBeLessThanOrEqual(MOST);
    }),
  );
  expect(paused).toBeGreaterThan(100);
  expect(gaveWay).toBeGreaterThan(100);
});

test("who began less than a second ago waits for the others, and does not give way for them", () => {
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

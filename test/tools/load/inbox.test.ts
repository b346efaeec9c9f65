/** Tests that each piece is read once, in order, with the time at which it came, and soon. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import {
  AHEAD_US,
  BURST_US,
  Inbox,
  LONG_PAUSE_US,
  NAMED_MOST,
  PATIENCE_US,
  PIECES_MOST,
  QUIET_US,
  WATCH_US,
} from "../../../src/tools/load/clients/inbox.ts";

const never = () => {
  throw new Error("nothing is left behind yet");
};
const BYTES = new Uint8Array(3);

/** A clock that advances with each look. A turn of the event loop takes `turnUs`. */
class TurningClock extends VirtualClock {
  turns = 0;
  /** Turns that were requested and did not run yet. */
  asked = 0;
  constructor(readonly turnUs: number) {
    super();
  }
  override turn(run: () => void): void {
    this.asked++;
    super.turn(() => {
      this.asked--;
      this.turns++;
      this.skip(this.now() + this.turnUs);
      run();
    });
  }
}

test("each piece is read once, in order, with the time at which the kernel reported it", () => {
  const pieces = fc.oneof(
    { weight: 9, arbitrary: fc.nat(200) },
    { weight: 1, arbitrary: fc.nat(2 * NAMED_MOST + 100) },
  );
  const burst = fc.record({ pieces, waits: fc.nat(3), more: fc.nat(3), sentAt: fc.nat(400) });
  // A turn must take time, because a burst that is polled would never end otherwise.
  fc.assert(
    fc.property(fc.array(burst, { maxLength: 20 }), fc.integer({ min: 1, max: 50 }), (bursts, turnUs) => {
      const clock = new TurningClock(turnUs);
      const came: [number, number][] = [];
      const read: [number, number][] = [];
      // The time of the first piece of a turn, of the first piece after a request, or of each n-th piece.
      let named = { turn: -1, us: 0, left: 0 };
      const add = () => {
        if (named.turn !== clock.turns || named.left === 0)
          named = { turn: clock.turns, us: clock.now(), left: NAMED_MOST };
        named.left--;
        came.push([came.length, named.us]);
        inbox.add(came.length - 1, BYTES);
        clock.skip(clock.now() + 1);
      };
      let more = 0;
      const inbox: Inbox<number> = new Inbox(
        clock,
        (to, bytes, nowUs) => {
          expect(bytes).toBe(BYTES);
          read.push([to, nowUs]);
          // Reading may add pieces, such as when a request is sent again.
          if (more-- > 0) add();
        },
        never,
      );
      for (const { pieces, waits, more: again, sentAt } of bursts) {
        more = again;
        for (let i = 0; i < pieces; i++) {
          if (i === sentAt) {
            inbox.sent();
            named.left = 0;
          }
          add();
        }
        for (let i = 0; i < waits; i++) clock.next();
        if (waits === 3) inbox.readAll();
        clock.skip(clock.now() + 7);
      }
      clock.drain(10_000);
      expect(read).toEqual(came);
    }),
  );
});

test("a piece that fills the inbox does not pass its time on to the next piece", () => {
  const clock = new TurningClock(1);
  const times: number[] = [];
  const inbox = new Inbox<number>(clock, (_to, _bytes, nowUs) => times.push(nowUs), never);
  clock.skip(1000);
  inbox.add(0, new Uint8Array(5 << 20));
  clock.next();
  clock.skip(5000);
  inbox.add(1, BYTES);
  inbox.readAll();
  expect(times).toEqual([1000, 5000]);
});

test("no piece is read while more arrive, for a limited time", () => {
  const clock = new TurningClock(100);
  let last = 0;
  const inbox = new Inbox<number>(
    clock,
    (_to, _bytes, nowUs) => {
      last = Math.max(last, clock.now() - nowUs);
    },
    never,
  );
  let stillUs = 0;
  for (let i = 0; i < 1000; i++) {
    inbox.add(i, BYTES);
    clock.next();
    if (last === 0) stillUs = clock.now();
  }
  expect(stillUs).toBeGreaterThanOrEqual(PATIENCE_US);
  expect(last).toBeGreaterThan(0);
  expect(last).toBeLessThanOrEqual(PATIENCE_US + 200);
});

test.each([3, 100, 5000])("when no more pieces come all are read, in short slices: %d us each", (eachUs) => {
  const clock = new TurningClock(1);
  let read = 0;
  const inbox = new Inbox<number>(
    clock,
    () => {
      read++;
      clock.skip(clock.now() + eachUs);
    },
    never,
  );
  for (let i = 0; i < 300; i++) inbox.add(i, BYTES);
  let longestUs = 0;
  for (let fromUs = clock.now(); clock.next(); fromUs = clock.now())
    longestUs = Math.max(longestUs, clock.now() - fromUs);
  expect(read).toBe(300);
  expect(longestUs).toBeLessThanOrEqual(120 + eachUs + 1);
});

test("pieces that do not fit are read at once", () => {
  const clock = new TurningClock(1);
  let read = 0;
  const inbox = new Inbox<number>(clock, () => void read++, never);
  for (let i = 0; i < PIECES_MOST; i++) inbox.add(i, BYTES);
  expect(read).toBe(PIECES_MOST);
  for (let i = 0; i < 5; i++) inbox.add(i, new Uint8Array(1 << 19));
  expect(read).toBe(PIECES_MOST);
  inbox.add(5, new Uint8Array(1 << 21));
  expect(read).toBe(PIECES_MOST + 6);
});

test("garbage is collected in quiet moments, never within a burst", () => {
  const clock = new TurningClock(1);
  let last = 0;
  const at: number[] = [];
  const collect = () => {
    expect(clock.now() - last).toBeGreaterThanOrEqual(QUIET_US);
    at.push(clock.now());
  };
  const inbox = new Inbox<number>(clock, () => {}, collect);
  // A burst every 20 ms: 100 pieces of 1 KiB, 10 µs apart. The inbox is empty between bursts.
  for (let burst = 0; burst < 100; burst++) {
    for (let i = 0; i < 100; i++) {
      inbox.add(i, new Uint8Array(1024));
      last = clock.now();
      clock.advanceTo(clock.now() + 10);
    }
    clock.advanceTo((burst + 1) * 20_000);
  }
  expect(at.length).toBeGreaterThan(4);
  expect(at.length).toBeLessThan(10);
});

test("without quiet moments nothing is collected, and checks become rare", () => {
  const clock = new TurningClock(1);
  let looks = 0;
  const at = clock.at.bind(clock);
  clock.at = (dueUs, wake) => {
    looks++;
    return at(dueUs, wake);
  };
  const inbox = new Inbox<number>(clock, () => {}, never);
  for (let i = 0; i < 5000; i++) {
    inbox.add(i, new Uint8Array(1024));
    clock.advanceTo(clock.now() + 1000);
  }
  expect(looks).toBeGreaterThan(20);
  expect(looks).toBeLessThan(60);
});

test("the loop polls during bursts that are long or follow a long pause, and sleeps otherwise", () => {
  const TURN_US = 5;
  const clock = new TurningClock(TURN_US);
  const inbox = new Inbox<number>(clock, () => {}, never);
  const turnsOf = (piece: number, waitUs: number) => {
    const before = clock.turns;
    const nextUs = clock.now() + waitUs;
    inbox.add(piece, BYTES);
    clock.advanceTo(nextUs);
    return clock.turns - before;
  };
  const gapUs = 80;
  // Number of turns that a piece takes, including one in which more pieces may come, and one in which it is read.
  const reading = 3;
  const watching = gapUs / TURN_US - 1;
  turnsOf(0, LONG_PAUSE_US);
  for (let us = 0; us < BURST_US.least; us += gapUs) expect(turnsOf(us, gapUs)).toBeLessThanOrEqual(reading);
  for (let us = 0; us < 10_000; us += gapUs) expect(turnsOf(us, gapUs)).toBeGreaterThanOrEqual(watching);
  const after = turnsOf(0, 10_000);
  expect(after).toBeGreaterThanOrEqual(WATCH_US / TURN_US);
  expect(after).toBeLessThanOrEqual(WATCH_US / TURN_US + reading);
  // After a long pause each piece may begin a burst. After a short pause the burst must be long.
  expect(turnsOf(0, gapUs)).toBeGreaterThanOrEqual(watching);
  turnsOf(0, LONG_PAUSE_US);
  expect(turnsOf(0, gapUs)).toBeLessThanOrEqual(reading);
  turnsOf(0, LONG_PAUSE_US + 1);
  expect(turnsOf(0, gapUs)).toBeGreaterThanOrEqual(watching);
  // Data without pauses is not a burst.
  for (let us = 0; us < BURST_US.most; us += gapUs) turnsOf(us, gapUs);
  for (let us = 0; us < 1000; us += gapUs) expect(turnsOf(us, gapUs)).toBeLessThanOrEqual(reading);
});

test("low-priority work runs piece by piece when no data comes, and not otherwise", () => {
  const TURN_US = 5;
  const clock = new TurningClock(TURN_US);
  let [last, left, unread] = [0, 8, 0];
  const inbox = new Inbox<number>(clock, () => unread--, never);
  const add = () => {
    inbox.add(0, BYTES);
    last = clock.now();
    unread++;
  };
  inbox.whenQuiet(() => {
    expect(clock.now() - last).toBeGreaterThanOrEqual(WATCH_US);
    expect(unread).toBe(0);
    // Data arrives during the work, so the rest of the work waits again.
    if (left % 4 === 0) add();
    return --left > 0;
  });
  for (let i = 0; i < 50; i++) add();
  clock.drain(10_000);
  expect([left, unread]).toEqual([0, 0]);
});

test("low-priority work does not make the loop poll", () => {
  const clock = new TurningClock(1);
  const inbox = new Inbox<number>(clock, () => {}, never);
  let works = 0;
  clock.skip(1000);
  inbox.add(0, BYTES);
  inbox.whenQuiet(() => ++works < 0);
  for (let i = 0; i < 100 && clock.asked > 0; i++) clock.next();
  expect(clock.turns).toBeLessThan(5);
  expect(works).toBe(0);
  clock.drain(100);
  expect(works).toBe(1);
  expect(clock.now()).toBeLessThan(1000 + AHEAD_US + WATCH_US);
});

test("during a burst each turn checks for due timers", () => {
  let late = 0;
  const clock = Object.assign(new TurningClock(1), {
    catchUps: 0,
    nextUs: () => clock.now() - late,
    catchUp: () => void clock.catchUps++,
  });
  const inbox = new Inbox<number>(clock, () => {}, never);
  const turn = () => {
    inbox.add(0, BYTES);
    clock.next();
  };
  for (let i = 0; i < 100; i++) turn();
  expect([clock.turns, clock.catchUps]).toEqual([100, 0]);
  late = 1;
  for (let i = 0; i < 100; i++) turn();
  expect([clock.turns, clock.catchUps]).toEqual([200, 100]);
});

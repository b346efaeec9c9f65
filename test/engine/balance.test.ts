/**
 * Compares the choice among data-parallel ranks with vLLM's: a worked example, each term of the score, and the age of the counts.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { Balance } from "../../src/engine/balance.ts";

type Counts = readonly [waiting: number, running: number, kvUsage: number];

const MS = 1000;
const idle = () => 0;

/** Returns a balance whose front end got these counts at time 0. */
function balanceWith(counts: readonly Counts[], clientCount = 1, clientIndex = 0): Balance {
  const balance = new Balance(counts.length, -1000 * MS, clientCount, clientIndex);
  for (const [engine, [waiting, running, kvUsage]] of counts.entries())
    balance.publish(engine, waiting, running, kvUsage, -500 * MS);
  return balance;
}

const picks = (balance: Balance, count: number, inFlight = idle as (engine: number) => number, us = 0) =>
  Array.from({ length: count }, () => balance.choose(inFlight, us));

test("a worked example: 5 running against 2 running and 2 waiting with a pool that is 90 % full", () => {
  // Scores 5 and 4 + 2 · 6 · 0.4 = 8.8; then 6 and 8.8, and so on. The front end's own addition raises the score of
  // engine 0 by one each time.
  const balance = balanceWith([
    [0, 5, 0.2],
    [2, 2, 0.9],
  ]);
  expect(picks(balance, 4)).toEqual([0, 0, 0, 0]);
  // 9 against 8.8.
  expect(picks(balance, 1)).toEqual([1]);
});

test("of equal engines the first from the start wins, and the start moves with every choice", () => {
  expect(picks(balanceWith([[0, 0, 0], [0, 0, 0], [0, 0, 0]]), 7)).toEqual([0, 1, 2, 0, 1, 2, 0]); // biome-ignore format: a table
  // The scan starts at 1 after the first choice, and at 0 again when both engines have one request.
  expect(picks(balanceWith([[0, 0, 0], [0, 1, 0]]), 3)).toEqual([0, 1, 0]); // biome-ignore format: a table
});

test("several front ends start at different engines, and each counts for all", () => {
  const none: Counts[] = [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]; // biome-ignore format: a table
  expect([0, 1, 2].map((client) => balanceWith(none, 3, client).choose(idle, 0))).toEqual([0, 1, 2]);
  // 3 · 1 in flight is more than 2 running. The choice adds 3.
  const balance = balanceWith([[0, 0, 0], [0, 2, 0]], 3); // biome-ignore format: a table
  expect(picks(balance, 2, (engine) => (engine === 0 ? 1 : 0))).toEqual([1, 0]);
});

test("requests in flight count if they are more than the reported requests", () => {
  expect(balanceWith([[0, 3, 0], [0, 0, 0]]).choose((engine) => [0, 4][engine]!, 0)).toBe(0); // biome-ignore format: a table
  expect(balanceWith([[0, 3, 0], [0, 0, 0]]).choose((engine) => [0, 2][engine]!, 0)).toBe(1); // biome-ignore format: a table
});

test("a full pool has no weight without waiting requests", () => {
  expect(balanceWith([[0, 1, 1], [0, 2, 0]]).choose(idle, 0)).toBe(0); // biome-ignore format: a table
  expect(balanceWith([[1, 0, 1], [0, 2, 0]]).choose(idle, 0)).toBe(1); // biome-ignore format: a table
  expect(balanceWith([[1, 0, 0.5], [0, 2, 0]]).choose(idle, 0)).toBe(0); // biome-ignore format: a table
});

test("a change arrives at once after a quiet time, otherwise after 100 ms, and replaces the front end's own additions", () => {
  const balance = new Balance(2, 0);
  balance.publish(0, 0, 9, 0, 200 * MS); // the front end receives this report at once
  expect(picks(balance, 3, idle, 200 * MS)).toEqual([1, 1, 1]);
  balance.publish(0, 0, 0, 0, 210 * MS); // the front end receives this report at 300 ms
  expect(picks(balance, 6, idle, 299 * MS)).toEqual([1, 1, 1, 1, 1, 1]);
  // Both engines are equal again, and the scan starts at engine 1.
  expect(picks(balance, 2, idle, 300 * MS)).toEqual([1, 0]);
});

test("a change of the pool's use alone sends no report", () => {
  const balance = new Balance(2, 0);
  balance.publish(0, 1, 1, 0, 200 * MS);
  balance.publish(0, 1, 1, 1, 400 * MS);
  expect(balance.choose((engine) => [0, 3][engine]!, 600 * MS)).toBe(0);
});

/** The coordinator as vLLM runs it, with timers: the counts that the front end gets, event by event. */
class Coordinator {
  readonly published: number[][];
  received: number[][];
  #changed = false;
  #lastUs: number;
  #timer = 0;

  constructor(
    engines: number,
    readonly clock: VirtualClock,
  ) {
    this.published = Array.from({ length: engines }, () => [0, 0, 0]);
    this.received = this.published.map((counts) => [...counts]);
    this.#lastUs = clock.now();
    this.#arm();
  }

  publish(engine: number, counts: readonly number[]): void {
    const [waiting, running] = this.published[engine]!;
    if (waiting === counts[0] && running === counts[1]) return;
    this.published[engine] = [...counts];
    this.#changed = true;
    this.#arm();
  }

  #arm(): void {
    const timer = ++this.#timer;
    const dueUs = this.#lastUs + (this.#changed ? 100 : 5000) * MS;
    const send = () => {
      if (timer !== this.#timer) return;
      this.received = this.published.map((counts) => [...counts]);
      this.#changed = false;
      this.#lastUs = this.clock.now();
      this.#arm();
    };
    if (dueUs <= this.clock.now()) send();
    else this.clock.at(dueUs, send);
  }
}

const event = fc.record({
  afterMs: fc.oneof(fc.nat(30), fc.nat(250), fc.nat(12_000)),
  engine: fc.nat(2),
  counts: fc.option(fc.tuple(fc.nat(4), fc.nat(4), fc.constantFrom(0, 0.3, 0.7, 1)), { freq: 2 }),
  inFlight: fc.array(fc.nat(6), { minLength: 3, maxLength: 3 }),
});

test("without a timer it gets the same reports as from a coordinator with timers, and chooses the same", () => {
  const property = fc.property(fc.array(event, { minLength: 1, maxLength: 80 }), (events) => {
    const clock = new VirtualClock(0);
    const coordinator = new Coordinator(3, clock);
    const balance = new Balance(3, 0);
    let start = 0;
    for (const { afterMs, engine, counts, inFlight } of events) {
      clock.advanceTo(clock.now() + afterMs * MS);
      if (counts !== null) {
        coordinator.publish(engine, counts);
        balance.publish(engine, ...(counts as [number, number, number]), clock.now());
        continue;
      }
      const scores = coordinator.received.map(
        ([waiting, running, kvUsage], at) =>
          Math.max(inFlight[at]!, waiting! + running!) + waiting! * 6 * Math.max(0, kvUsage! - 0.5),
      );
      const scan = [0, 1, 2].map((i) => (start + i) % 3);
      const expected = scan.find((at) => scores[at] === Math.min(...scores))!;
      start = (start + 1) % 3;
      coordinator.received[expected]![0]!++;
      expect(balance.choose((at) => inFlight[at]!, clock.now())).toBe(expected);
    }
  });
  fc.assert(property, { numRuns: 300 });
});

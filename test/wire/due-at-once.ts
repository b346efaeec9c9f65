/** Shared test of containers with deadlines: thousands of items that are due at once end in several turns of the event loop. */
import { expect } from "bun:test";

const EXPIRE_US = 3;
const COUNT = 16_000;
const TURN_US = 1000;
export const DUE_US = 1000;

/** A simulated clock. `at` sets a timer and returns a function that does nothing, because no timer is cancelled here. */
export interface DueClock {
  now(): number;
  at(dueUs: number, act: () => void): () => void;
}

interface Expiring {
  expire(): void;
}

/**
 * Lets 16,000 items expire at once and checks that each turn takes about a millisecond, and that an item that is forgotten in
 * the second turn does not expire. `watching` makes the container; its result watches an item for `DUE_US` microseconds and
 * returns a function that forgets the item.
 */
export function expectTurns(watching: (clock: DueClock) => (item: Expiring) => () => void): void {
  let nowUs = 0;
  const timers: { dueUs: number; act: () => void }[] = [];
  const at = (dueUs: number, act: () => void) => {
    timers.push({ dueUs, act });
    return () => {};
  };
  const watch = watching({ now: () => nowUs, at });
  let ended = 0;
  const expire = () => {
    ended++;
    nowUs += EXPIRE_US;
  };
  const forget = Array.from({ length: COUNT }, () => watch({ expire }));
  let [turns, longestUs] = [0, 0];
  for (let next = timers.shift(); next !== undefined; next = timers.shift()) {
    nowUs = Math.max(nowUs, next.dueUs);
    const fromUs = nowUs;
    next.act();
    turns++;
    longestUs = Math.max(longestUs, nowUs - fromUs);
    if (turns === 2) forget.at(-1)!();
  }
  expect(ended).toBe(COUNT - 1);
  expect(longestUs).toBeLessThan(TURN_US + 2 * EXPIRE_US);
  expect(turns).toBeGreaterThan((COUNT * EXPIRE_US) / (1.1 * TURN_US));
}

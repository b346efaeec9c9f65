/** Tests that thousands of items due at once end in several turns of the event loop, each once. */
import { expect, test } from "bun:test";
import { Deadlines } from "../../../src/wire/http/deadlines.ts";

const EXPIRE_US = 3;
const COUNT = 16_000;

test("16,000 due items end in turns of one millisecond; one that is forgotten meanwhile does not expire", () => {
  let nowUs = 0;
  const timers: { dueUs: number; act: () => void }[] = [];
  const at = (dueUs: number, act: () => void) => {
    timers.push({ dueUs, act });
    return () => {};
  };
  const deadlines = new Deadlines(1000, { nowUs: () => nowUs, after: (us, act) => at(nowUs + us, act) });
  const watch = (one: { expire(): void }) => {
    deadlines.watch(one);
    return () => deadlines.forget(one);
  };
  let ended = 0;
  const forget = Array.from({ length: COUNT }, () =>
    watch({
      expire: () => {
        ended++;
        nowUs += EXPIRE_US;
      },
    }),
  );
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
  expect(longestUs).toBeLessThan(1000 + 2 * EXPIRE_US);
  expect(turns).toBeGreaterThan((COUNT * EXPIRE_US) / 1100);
});

/** Tests sleeping tasks: all continue, in the order of their due times, and only a limited number in one turn. */
import { expect, test } from "bun:test";
import { Naps } from "../../../src/base/time/naps.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";

test("many tasks that are due together continue in groups over several turns, in order", async () => {
  const clock = new VirtualClock();
  const naps = new Naps(clock);
  const woken: number[] = [];
  for (let at = 0; at < 600; at++) void naps.sleep(20).then(() => woken.push(at));
  void naps.sleep(10).then(() => woken.push(-1));
  void naps.sleep(30).then(() => woken.push(600));
  const counts: number[] = [];
  while (clock.next()) {
    await Promise.resolve();
    await Promise.resolve();
    counts.push(woken.length);
  }
  expect(woken).toEqual([-1, ...Array.from({ length: 601 }, (_, at) => at)]);
  expect(counts.filter((count, at) => count !== counts[at - 1])).toEqual([
    1, 65, 129, 193, 257, 321, 385, 449, 513, 577, 601, 602,
  ]);
  expect(clock.now()).toBe(30_000);
});

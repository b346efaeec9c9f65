/** Tests that requests pass in the order of their arrival, and that nothing is kept of requests that have passed. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ArrivalOrder } from "../../../../src/servers/openai/front/queue.ts";

test("requests pass in the order of arrival, not of readiness, and a failed one passes as null", async () => {
  const request = fc.record({ isReady: fc.integer({ min: 0, max: 9 }), fails: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 10 }), async (all) => {
      const order = new ArrivalOrder();
      const passed: (number | null)[] = [];
      const waiting = all.map(() => Promise.withResolvers<number>());
      const passing = waiting.map(({ promise }) => order.pass(promise).then((at) => void passed.push(at)));
      expect(order.clear).toBe(false);
      const byTime = [...all.entries()].sort(([, a], [, b]) => a.isReady - b.isReady);
      for (const [at, { fails }] of byTime) {
        if (fails) waiting[at]!.reject(new Error("failed"));
        else waiting[at]!.resolve(at);
        await Bun.sleep(0);
      }
      await Promise.all(passing);
      expect(passed).toEqual(all.map(({ fails }, at) => (fails ? null : at)));
      expect(order.clear).toBe(true);
    }),
    { numRuns: 50 },
  );
});

test("the prompts of a request that has passed are not kept until the next request", async () => {
  const orders = Array.from({ length: 100 }, () => new ArrivalOrder());
  const passed = await Promise.all(
    orders.map(async (order) => {
      const prepared = await order.pass(Promise.resolve({ prompts: new Uint32Array(1000) }));
      return new WeakRef(prepared!);
    }),
  );
  await Bun.sleep(0);
  Bun.gc(true);
  // A few may still be on a stack.
  expect(passed.filter((ref) => ref.deref() !== undefined).length).toBeLessThan(10);
  expect(orders.every(({ clear }) => clear)).toBe(true);
});

/** Compares the sequence batcher with a plain model for random histories, and tests that each request ends once. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { SequenceRules } from "../../../../src/servers/triton/scheduling/sequences.ts";
import { figure, seed, sized } from "../../../size.ts";
import { PlainSequences } from "./plain-sequences.ts";
import { type Event, event, of, Request, rules, rulesOf } from "./sequence-histories.ts";

const CASES = sized("triton", { sample: 1000, whole: Number(process.env.TEST_CASES ?? 100_000) });

test(`${CASES} histories end each request once, in its sequence's order, alone in its slot of a batch`, () => {
  let batches = 0;
  fc.assert(
    fc.property(rules, fc.array(event, { minLength: 1, maxLength: 40, size: "max" }), (given, events) => {
      const batcher = of(given);
      const all: Request[] = [];
      const open = new Set<Request>();
      const running = new Map<number, Request[]>();
      const lastRun = new Map<string, number>();
      /** Names the sequence of a request. A sequence that has ended may start again under its id, as another sequence. */
      const sequence = (request: Request) => {
        const before = all.slice(0, all.indexOf(request)).filter(({ sequenceId: id }) => id === request.sequenceId);
        return `${request.sequenceId}.${before.filter(({ sequenceEnd }) => sequenceEnd).length}`;
      };
      let nowUs = 0;
      const finish = (at: number) => {
        for (const request of running.get(at) ?? []) batcher.completed(request, nowUs);
        if (running.delete(at)) batcher.freed(at);
      };
      const look = () => {
        const { placed: made = [], rejected, cancelled } = batcher.orders(nowUs);
        for (const one of [...rejected, ...cancelled]) {
          expect(open.delete(one)).toBe(true);
          batcher.completed(one, nowUs);
        }
        for (const { instance, rows } of made) {
          batches++;
          expect(running.has(instance)).toBe(false);
          expect(new Set(rows.map(({ slot }) => slot)).size).toBe(rows.length);
          const real = rows.filter(({ ready }) => ready).map(({ request }) => request);
          expect(new Set(real.map(({ likeness }) => likeness)).size).toBe(1);
          for (const request of real) {
            expect(open.delete(request)).toBe(true);
            const at = all.indexOf(request);
            // A new start may arrive while an idle sequence of the same id still ends at another instance.
            if (given.instances === 1 && given.idleUs > 999)
              expect(at).toBeGreaterThan(lastRun.get(sequence(request)) ?? -1);
            lastRun.set(sequence(request), at);
          }
          running.set(instance, real);
        }
      };
      for (const one of events) {
        if ("passUs" in one) nowUs += one.passUs;
        else if ("wakes" in one) continue;
        else if ("frees" in one) finish(one.frees);
        else if ("cancels" in one) all.length > 0 && Object.assign(all[one.cancels % all.length]!, { cancelled: true });
        else {
          const request = new Request(BigInt(one.id), one.start, one.end, one.timeoutUs, one.likeness);
          try {
            batcher.enqueue(request, nowUs);
            all.push(request);
            open.add(request);
          } catch (error) {
            expect((error as Error).message).toContain("must specify the START flag");
          }
        }
        look();
      }
      // At the end all waiting requests run or end.
      for (let turn = 0; turn < 200 && (open.size > 0 || running.size > 0); turn++) {
        // A request that does not wake its batcher waits half a second at most.
        nowUs += 600_000;
        look();
        for (let at = 0; at < given.instances; at++) finish(at);
        look();
      }
      expect(open.size).toBe(0);
    }),
    { numRuns: CASES, seed },
  );
  figure("sequenceCases", CASES);
  figure("sequenceBatches", batches);
});

const shownOrders = (all: readonly Request[], made: ReturnType<PlainSequences<Request>["orders"]>) => {
  const places = (some: readonly Request[]) => some.map((one) => all.indexOf(one));
  return {
    placed: made.placed.map(({ instance, rows }) => ({
      instance,
      rows: rows.map(({ request, slot, ready }) => [all.indexOf(request), slot, ready]),
    })),
    rejected: places(made.rejected),
    cancelled: places(made.cancelled).sort((a, b) => a - b),
  };
};

test(`${CASES} histories give the orders of the plain model`, () => {
  let orders = 0;
  const history = (given: Partial<SequenceRules>, events: readonly Event[]) => {
    const real = of(given);
    const plain = new PlainSequences<Request>(rulesOf(given));
    const all: Request[] = [];
    const running = new Map<number, Request[]>();
    let nowUs = 0;
    let wakeUs: number | null = null;
    const finish = (at: number) => {
      for (const batcher of [real, plain]) {
        for (const request of running.get(at) ?? []) batcher.completed(request, nowUs);
        if (running.has(at)) batcher.freed(at);
      }
      running.delete(at);
    };
    const look = () => {
      const made = real.orders(nowUs);
      const { rejected, cancelled, placed: batches = [] } = made;
      const wanted = plain.orders(nowUs);
      orders++;
      wakeUs = made.wakeUs;
      expect(
        shownOrders(all, { placed: [...batches], rejected: [...rejected], cancelled: [...cancelled], wakeUs: 0 }),
      ).toEqual(shownOrders(all, wanted));
      expect(wakeUs ?? Infinity).toBeGreaterThan(nowUs);
      expect(wakeUs ?? Infinity).toBe(wanted.wakeUs);
      for (const one of [...rejected, ...cancelled]) for (const batcher of [real, plain]) batcher.completed(one, nowUs);
      for (const { instance, rows } of batches)
        running.set(
          instance,
          rows.filter(({ ready }) => ready).map(({ request }) => request),
        );
    };
    for (const one of events) {
      if ("passUs" in one) nowUs += one.passUs;
      else if ("wakes" in one) nowUs = Math.max(nowUs, wakeUs ?? nowUs);
      else if ("frees" in one) finish(one.frees);
      else if ("cancels" in one) all.length > 0 && Object.assign(all[one.cancels % all.length]!, { cancelled: true });
      else {
        const request = new Request(BigInt(one.id), one.start, one.end, one.timeoutUs, one.likeness);
        const taken = plain.enqueue(request, nowUs);
        if (taken) {
          all.push(request);
          real.enqueue(request, nowUs);
        } else expect(() => real.enqueue(request, nowUs)).toThrow("must specify the START flag");
      }
      look();
    }
  };
  fc.assert(fc.property(rules, fc.array(event, { minLength: 1, maxLength: 40, size: "max" }), history), {
    numRuns: CASES,
    seed,
  });
  figure("sequenceOrders", orders);
});

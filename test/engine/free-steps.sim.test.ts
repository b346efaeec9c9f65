/** Checks, turn by turn, which steps share a turn of the event loop if steps take no time. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Clock } from "../../src/base/clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "./simulated-engine.ts";

/** A clock that advances by a fixed time at each reading. Turns run when the test says so. */
class TurningClock implements Clock {
  readonly #soon: (() => void)[] = [];
  #turns: (() => void)[] = [];
  #us = 0;
  constructor(readonly lookUs: number) {}
  now(): number {
    this.#us += this.lookUs;
    return this.#us;
  }
  at(): never {
    throw new Error("a free step waits for a time");
  }
  nextUs(): number {
    return Number.POSITIVE_INFINITY;
  }
  turn(run: () => void): void {
    this.#turns.push(run);
  }
  soon(run: () => void): void {
    this.#soon.push(run);
  }
  close(): void {}
  /** Returns false if nothing was waiting. */
  take(): boolean {
    this.endTurn();
    const due = this.#turns;
    this.#turns = [];
    for (const run of due) {
      run();
      this.endTurn();
    }
    return due.length > 0;
  }
  endTurn(): void {
    for (let run = this.#soon.shift(); run; run = this.#soon.shift()) run();
  }
}

function engineOn(lookUs: number) {
  const clock = new TurningClock(lookUs);
  let turn = 0;
  /** The turn in which each step was updated. */
  const steps: number[] = [];
  const engine = new Engine({
    ...{
      clock,
      module: debug,
      free: true,
      eosId: EOS,
      answers,
      config: configOf({ numGpuBlocks: 400, timing: { kind: "none" } }),
    },
    loopObservers: [{ delivered: () => void steps.push(turn) }],
  });
  const records: { ids: number; turns: number[]; endedIn: number | null }[] = [];
  const add = (maxTokens: number, gathers: boolean) => {
    const record = { ids: 0, turns: [] as number[], endedIn: null as number | null };
    records.push(record);
    const promptIds = promptOf(20, records.length);
    engine.submit(generationOf({ promptIds, maxTokens, seed: records.length }), {
      gathers,
      onTokens(_, __, count, finish) {
        record.ids += count;
        record.turns.push(turn);
        if (finish !== null) record.endedIn = turn;
      },
    });
  };
  const turns = (most = 10_000) => {
    while (most-- > 0 && clock.take()) turn++;
  };
  return { add, turns, steps, records };
}

test("whole answers that are requested within two turns share their steps and end in one turn", () => {
  const { add, turns, steps, records } = engineOn(1);
  add(8, true);
  turns(1);
  add(8, true);
  turns(1);
  add(8, true);
  turns();
  expect(records.map(({ ids }) => ids)).toEqual([8, 8, 8]);
  expect(new Set(records.map(({ endedIn }) => endedIn)).size).toBe(1);
  // Two steps are planned before the other requests arrive, and two before the last end is known. Alone, the requests
  // would take 30 steps.
  expect(steps.length).toBeLessThanOrEqual(8 + 4);
});

test("a stream gets each step in a turn of its own, and the first without delay", () => {
  const { add, turns, records } = engineOn(1);
  add(8, false);
  turns();
  expect(records[0]!.turns).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

test("a turn ends after the step in which 250 us are exceeded, for any step duration, and all requests end", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 400 }),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.nat(3)), { minLength: 1, maxLength: 6 }),
      (lookUs, asked) => {
        const { add, turns, steps, records } = engineOn(lookUs);
        for (const [maxTokens, after] of asked) {
          add(maxTokens, true);
          turns(after);
        }
        turns();
        expect(records.map(({ ids }) => ids)).toEqual(asked.map(([maxTokens]) => maxTokens));
        const inTurn = new Map<number, number>();
        for (const turn of steps) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1);
        // Each step reads the clock at least twice.
        for (const count of inTurn.values())
          expect(count).toBeLessThanOrEqual(Math.min(64, 1 + 250 / (2 * lookUs) + 1));
      },
    ),
  );
});

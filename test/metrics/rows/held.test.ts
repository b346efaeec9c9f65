/** Checks that each copy shows the numbers at the time that its refresh class defines. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { SnapshotView } from "../../../src/engine/interface/types.ts";
import { copiesReader, SnapshotCopies } from "../../../src/metrics/rows/held.ts";
import type { Refresh } from "../../../src/metrics/rows/table.ts";
import { emptyEngine, emptySnapshot, setup } from "../snapshots.ts";

const refreshes: readonly Refresh[] = ["now", "step", { everyMs: 100 }, { everyMs: 250 }];

test("a periodic copy shows the last update before the period's end, at any time of the scrape", () =>
  fc.assert(
    fc.property(fc.array(fc.record({ afterUs: fc.nat(300_000), scrape: fc.boolean() })), (events) => {
      let nowUs = 0;
      const state = { now: 0, step: 0 };
      /** The number after each update, with its time. */
      const history = [{ us: 0, step: 0 }];
      const source = (fresh: "now" | "step"): SnapshotView =>
        emptySnapshot([{ ...emptyEngine(), running: state[fresh] }]);
      const held = new SnapshotCopies(setup.shape, refreshes, source, nowUs);
      const read = copiesReader(setup.shape, refreshes);
      for (const { afterUs, scrape } of events) {
        nowUs += afterUs;
        if (!scrape) {
          held.before(nowUs);
          state.step++;
          history.push({ us: nowUs, step: state.step });
        }
        state.now++;
        const copies = read(held.refresh(nowUs));
        const shown = (refresh: Refresh) => copies(refresh).engines[0]!.running;
        const at = (periodMs: number) => {
          const start = Math.floor(nowUs / (periodMs * 1000)) * periodMs * 1000;
          return history.findLast(({ us }) => us < start || us === 0)!.step;
        };
        expect(refreshes.map(shown)).toEqual([state.now, state.step, at(100), at(250)]);
      }
    }),
  ));

test("a class without a copy is an error, not a zero", () => {
  const read = copiesReader(setup.shape, ["now"])(new Float64Array(10_000));
  expect(() => read("step")).toThrow("there is no copy for step");
});

test("copies are written into the given memory", () => {
  const into = new Float64Array(new SharedArrayBuffer(8 * 100_000));
  const held = new SnapshotCopies(
    setup.shape,
    ["now"],
    () => emptySnapshot([{ ...emptyEngine(), running: 5 }]),
    0,
    into,
  );
  expect(held.refresh(1)).toBe(into);
  expect(copiesReader(setup.shape, ["now"])(into)("now").engines[0]!.running).toBe(5);
});

/** Checks that a figure of a bench cannot overwrite the machine and commit of a result line. */
import { expect, test } from "bun:test";
import { lineOf } from "../../bench/lib/bench.ts";

test("a figure with the name of a field that each line has is refused, whatever its value", () => {
  const figures: Record<string, unknown> = { ratio: 1, bun: 3.3, machine: undefined };
  expect(() => lineOf("short", figures)).toThrow('short: every line has "bun", "machine" already; rename the number');
});

test("a line contains the figures, the machine, the commit and Bun's version", () => {
  const line = JSON.parse(lineOf("short", { ratio: 1.5 }));
  expect(line).toMatchObject({ bench: "short", bun: Bun.version, ratio: 1.5 });
  expect(Object.keys(line)).toEqual([
    "bench",
    "kind",
    "date",
    "commit",
    "realtime",
    "changed",
    "bun",
    "machine",
    "ratio",
  ]);
});

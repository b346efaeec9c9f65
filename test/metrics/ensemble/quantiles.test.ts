/**
 * Compares the quantiles of Triton's summaries with prometheus-cpp 1.0.1, including the time window in which it forgets values.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Quantiles, type QuantileTarget } from "../../../src/metrics/ensemble/quantiles.ts";

const DEFAULT: readonly QuantileTarget[] = [
  { quantile: 0.5, error: 0.05 },
  { quantile: 0.9, error: 0.01 },
  { quantile: 0.95, error: 0.001 },
  { quantile: 0.99, error: 0.001 },
  { quantile: 0.999, error: 0.001 },
];

function of(values: Iterable<number>, targets = DEFAULT): number[] {
  const quantiles = new Quantiles(targets, 0);
  for (const value of values) quantiles.insert(value, 0);
  return targets.map(({ quantile }) => quantiles.get(quantile));
}

function* drawn(seed: number, count: number, below: number) {
  for (let i = 0, state = seed; i < count; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    yield state % below;
  }
}

/** Answers of the library's own class for the same values, from a compiled program. */
const REAL: readonly (readonly [seed: number, count: number, below: number, answers: readonly number[]])[] = [
  [1, 100, 1e6, [517886, 896761, 915288, 965035, 965035]],
  [2, 499, 1e6, [514183, 919010, 962291, 991274, 996161]],
  [3, 500, 1000, [488, 871, 916, 980, 989]],
  [4, 1300, 100, [48, 90, 94, 98, 99]],
  [5, 5000, 1e6, [501314, 902500, 952382, 990319, 999583]],
  [6, 20_000, 1e6, [507491, 898321, 949545, 991050, 999961]],
];

test.each(REAL)("the quantiles equal the library's, seed %i: %i values below %i", (seed, count, below, answers) => {
  expect(of(drawn(seed, count, below))).toEqual([...answers]);
});

describe("with few values the estimates are low, as on tritonserver 2.51", () => {
  test("with ten values of 50 ms and one of 500 ms, p99.9 is 50 ms", () => {
    const values = Array.from({ length: 10 }, (_, i) => 50_000 + 150 * i);
    for (const value of of([...values, 500_000])) expect(value).toBeLessThan(51_500);
  });
  test("for 100, 200 and 300 the quantiles are 100, 100 and 200", () => {
    const targets = [0.25, 0.5, 0.9].map((quantile) => ({ quantile, error: 0.01 }));
    expect(of([100, 200, 300], targets)).toEqual([100, 100, 200]);
  });
  test("for 50, 100, 150, 200 and 400 the quantiles are 100 and 150", () => {
    const targets = [
      { quantile: 0.5, error: 0.05 },
      { quantile: 0.99, error: 0.001 },
    ];
    expect(of([50, 100, 150, 200, 400], targets)).toEqual([100, 150]);
  });
  test("one value is every quantile", () => expect(of([7])).toEqual([7, 7, 7, 7, 7]));
});

test("the window covers 48 to 60 seconds, then no value is left", () => {
  const quantiles = new Quantiles(DEFAULT, 0);
  const at = (seconds: number) => {
    quantiles.rotate(seconds * 1e6);
    return quantiles.get(0.5);
  };
  expect(at(0)).toBeNaN();
  quantiles.insert(5, 0);
  quantiles.insert(9, 13e6);
  expect(at(14)).toBe(5);
  // The estimator that answers now was emptied after the first value.
  expect(at(61)).toBe(9);
  expect(at(73)).toBeNaN();
});

test("an estimate is one of the values, and estimates rise with the quantile", () =>
  fc.assert(
    fc.property(fc.array(fc.nat(1e7), { minLength: 1, maxLength: 1200 }), (values) => {
      const answers = of(values);
      for (const answer of answers) expect(values).toContain(answer);
      expect([...answers].sort((a, b) => a - b)).toEqual(answers);
    }),
    { numRuns: 50 },
  ));

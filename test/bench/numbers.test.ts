/** Tests the statistics of benches: fits of costs, medians of rounds, and quantiles of a scraped histogram. */
import { expect, test } from "bun:test";
import { boundOf, Page } from "../../bench/lib/client.ts";
import { fitted, medianRatio, medians } from "../../bench/lib/numbers.ts";

test("points on a line give that line", () => {
  const { a, b } = fitted([2, 8, 32, 1024].map((tokens) => [tokens, 40 + 5.5 * tokens]));
  expect(a).toBeCloseTo(40, 6);
  expect(b).toBeCloseTo(5.5, 9);
});

test("a short stream counts as much as a long one: 1 % more at 1,024 tokens hardly moves the cost of a request", () => {
  const points = [2, 8, 32, 128, 1024].map((tokens) => [tokens, 40 + 5.5 * tokens] as const);
  const { a } = fitted(points.map(([tokens, us]) => [tokens, tokens === 1024 ? us * 1.01 : us]));
  expect(Math.abs(a - 40)).toBeLessThan(1);
});

test("each figure has its own median, and a ratio compares values of the same round", () => {
  const runs = [
    { us: 3, mb: 10 },
    { us: 1, mb: 30 },
    { us: 2, mb: 20 },
  ];
  expect(medians(runs)).toEqual({ us: 2, mb: 20 });
  // A machine that is ten times slower in the second round changes no ratio.
  expect(medianRatio([2, 20, 2.2], [1, 10, 1])).toBe(2);
});

test("a quantile of a histogram covers only the observations between two pages", () => {
  const page = (...counts: readonly number[]) =>
    new Page(['"0.1"', '"1"', '"+Inf"'].map((le, i) => `late_bucket{le=${le}} ${counts[i]}`).join("\n"));
  const since = page(100, 108, 110).bucketsSince(page(100, 100, 100), "late");
  expect([...since]).toEqual([
    [0.1, 0],
    [1, 8],
    [Number.POSITIVE_INFINITY, 10],
  ]);
  expect([boundOf(since, 0.5), boundOf(since, 0.99)]).toEqual([1, Number.POSITIVE_INFINITY]);
});

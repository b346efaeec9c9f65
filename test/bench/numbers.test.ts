/** Tests the fit of costs in `bench stream --only fit`. */
import { expect, test } from "bun:test";
import { fitted } from "../../bench/lib/numbers.ts";

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

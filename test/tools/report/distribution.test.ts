/** Tests moments, percentiles and histograms of random values. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { distributionHistogram, distributionOf, percentile } from "../../../src/tools/report/distribution.ts";

const values = fc.array(fc.double({ min: -1e9, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 60 });

describe("percentiles are interpolated linearly, like numpy's default", () => {
  const ten = Float64Array.from({ length: 10 }, (_, i) => i + 1);
  test.each([
    [50, 5.5],
    [90, 9.1],
    [99, 9.91],
    [0, 1],
    [100, 10],
  ])("p%d of 1 to 10", (q, expected) => expect(percentile(ten, q)).toBeCloseTo(expected, 12));
});

test("moments of a sample that was computed by hand, in any order", () => {
  const { histogram, ...rest } = distributionOf(Float64Array.from([4, 2, 9, 5, 4, 7, 4, 5]), [50, 99.9]);
  expect(rest).toMatchObject({ count: 8, mean: 5, std: 2, min: 2, max: 9, p50: 4.5 });
  expect(rest["p99.9"]).toBeCloseTo(8.986, 6);
  expect(histogram!.counts).toEqual([1, 3, 2, 1, 1]);
});

test("without values all statistics are null, not 0", () => {
  expect(distributionOf(new Float64Array(), [50])).toEqual({ count: 0, mean: null, std: null, min: null, max: null });
});

test("each value is in the first bucket whose bound is not below it, and buckets are narrow", () => {
  fc.assert(
    fc.property(values, (found) => {
      const sorted = Float64Array.from(found).sort();
      const { bounds, counts } = distributionHistogram(sorted);
      expect(counts.length).toBe(bounds.length);
      expect(bounds.every((bound, i) => i === 0 || bound > bounds[i - 1]!)).toBe(true);
      expect(bounds.at(-1)).toBe(sorted.at(-1)!);
      let at = 0;
      bounds.forEach((bound, i) => {
        const inside = sorted.slice(at, at + counts[i]!);
        at += counts[i]!;
        expect(inside.length).toBeGreaterThan(0);
        const [least, most] = [inside[0]!, inside.at(-1)!];
        expect(most).toBeLessThanOrEqual(bound);
        if (i > 0) expect(least).toBeGreaterThan(bounds[i - 1]!);
        expect(Math.abs(most - least)).toBeLessThanOrEqual(0.0117 * Math.max(Math.abs(most), Math.abs(least)) + 0.002);
      });
      expect(at).toBe(sorted.length);
    }),
  );
});

test("a million values need no more than a few thousand buckets", () => {
  const many = Float64Array.from({ length: 1e6 }, (_, i) => (i * 7919) % 1e6);
  expect(distributionOf(many, []).histogram!.bounds.length).toBeLessThan(2500);
});

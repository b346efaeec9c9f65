/** Tests that distributions of gaps are right if there are too many gaps to keep. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ChunkKeeper } from "../../../src/tools/load/many-gaps.ts";
import { distributions } from "../../../src/tools/load/measures.ts";
import type { RequestRecord } from "../../../src/tools/load/requests/types.ts";
import { bytesOf, read, recordOf, workedExample } from "./played.ts";

const RECORD = recordOf(
  read([
    [
      0,
      bytesOf(
        workedExample(true)
          .map(([, text]) => text)
          .join(""),
      ),
    ],
  ]).exchange,
);

/** Returns a request with a chunk of one token after each of these gaps. */
function request(gapsUs: readonly number[]): RequestRecord {
  let atUs = 0;
  const chunkUs = Float64Array.from([0, ...gapsUs], (gap) => {
    atUs += gap;
    return atUs;
  });
  return { ...RECORD, chunkUs, chunkTokens: new Int32Array(chunkUs.length).fill(1) };
}

test("distributions equal those of all gaps, percentiles within a bucket's width; memory stays within the limit", () => {
  const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1e9 })), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(fc.array(gaps, { minLength: 1, maxLength: 12 }), fc.nat(60), (many, most) => {
      const all = many.map(request);
      const exact = distributions(all, [0, 100]);
      const keeper = new ChunkKeeper(most);
      const kept = all.map((record) => keeper.keep(record));
      expect(kept.reduce((sum, { chunkUs }) => sum + chunkUs.length, 0)).toBeLessThanOrEqual(most);
      const counted = keeper.distributions(kept, [0, 100]);
      expect(counted === null).toBe(keeper.folded === 0);
      if (counted === null) return;
      for (const metric of ["itl", "icl"] as const) {
        const { count, mean, std, min, max, p0, p100 } = counted[metric];
        expect([count, min, max]).toEqual([exact[metric].count, exact[metric].min!, exact[metric].max!]);
        expect(Math.abs(mean! - exact[metric].mean!)).toBeLessThan(1e-6 * max! + 1e-9);
        expect(Math.abs(std! - exact[metric].std!)).toBeLessThan(1e-3 * max! + 1e-9);
        expect(p100).toBe(max);
        expect(p0!).toBeGreaterThanOrEqual(min!);
        expect(p0!).toBeLessThanOrEqual(min! * 1.0024);
      }
    }),
  );
});

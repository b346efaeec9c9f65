/** Tests that publishers without faults are not accused, in all encodings, whenever a subscriber joins. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { figure, seed, sized } from "../../size.ts";
import { BlockPool, poolOptions, poolSteps } from "./block-pool.ts";
import { delivered } from "./channel.ts";

setDefaultTimeout(600_000);

const RUNS = sized("kv-check", { sample: 1000, whole: 20_000 });

test(`${RUNS} clean runs accuse nobody`, () => {
  let batches = 0;
  let late = 0;
  fc.assert(
    fc.property(
      ...[poolOptions, poolSteps, fc.nat(20), fc.nat(40), fc.nat(10), fc.boolean(), fc.nat(3)],
      (options, steps, joinAt, leaveAt, away, hasReplay, replayAfter) => {
        const pool = new BlockPool(options);
        for (const step of steps) pool.step(step);
        const report = delivered(pool.messages, {
          ...{ joinAt: joinAt > 12 ? 0 : joinAt, leaveAt, away, replayAfter, numGpuBlocks: options.blocks + 1 },
          ...(hasReplay ? { buffer: options.buffer } : {}),
        });
        batches += report.scrapes;
        late += Number(joinAt > 0 && joinAt <= 12);
        expect(report.violated.flatMap(({ violations }) => violations.map(({ left }) => left.text))).toEqual([]);
        // A restart shows with the next batch.
        if (joinAt <= 12 || away > 0 || pool.isQuiet) return;
        // A hash that was stored twice and removed once counts as uncertain.
        if (steps.some((step) => "run" in step && step.skips))
          expect(report.storedBlocks).toBeLessThanOrEqual(pool.stored);
        else expect(report.storedBlocks).toBe(pool.stored);
      },
    ),
    { numRuns: RUNS, seed },
  );
  expect(batches).toBeGreaterThan(RUNS);
  expect(late).toBeGreaterThan(RUNS / 10);
  figure("cleanRuns", RUNS);
  figure("cleanBatches", batches);
});

test("every law that needs no page is judged in a clean run", () => {
  const pool = new BlockPool({ profile: "0.33.0", hasIntHashes: true, blockSize: 16, blocks: 12, buffer: 100 });
  for (let run = 0; run < 20; run++) pool.step({ run, tokens: 70, salt: "", skips: false });
  const report = delivered(pool.messages, { numGpuBlocks: 13, buffer: 100 });
  const unjudged = report.laws.filter(({ verdict }) => verdict !== "held").map(({ id }) => id);
  expect(unjudged).toEqual(["K10", "K21", "K22"]);
  expect(report.hashing).toBe("sha256_cbor, seed 0");
  expect(report.storedBlocks).toBe(pool.stored);
});

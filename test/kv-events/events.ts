/** Draws batches of KV events for tests. */
import fc from "fast-check";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";

const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
const hashes = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.uint8Array({ minLength: 16, maxLength: 32 }));
const words = fc.string({ maxLength: 40, unit: "grapheme" });
const integers = fc.nat(2 ** 31 - 1);
const keys = fc.array(fc.oneof(words, fc.uint8Array({ maxLength: 32 }), fc.tuple(words, integers)), { maxLength: 3 });

const events: fc.Arbitrary<KvCacheEvent> = fc.oneof(
  fc.record({
    type: fc.constant("BlockStored" as const),
    blockHashes: fc.array(hashes, { maxLength: 20 }),
    parentBlockHash: orNull(hashes),
    tokenIds: fc.array(integers, { maxLength: 40 }),
    blockSize: integers,
    loraId: orNull(integers),
    medium: orNull(words),
    loraName: orNull(words),
    extraKeys: orNull(fc.array(orNull(keys), { maxLength: 4 })),
    groupIdx: orNull(integers),
    kvCacheSpecKind: orNull(words),
    kvCacheSpecSlidingWindow: orNull(integers),
    locality: orNull(words),
    ownership: orNull(words),
    sessionId: orNull(words),
    lookaheadTokenIds: orNull(fc.array(fc.array(integers, { maxLength: 4 }), { maxLength: 4 })),
  }),
  fc.record({
    type: fc.constant("BlockRemoved" as const),
    blockHashes: fc.array(hashes, { maxLength: 3 }),
    medium: orNull(words),
    groupIdx: orNull(integers),
    locality: orNull(words),
    ownership: orNull(words),
  }),
  fc.constant({ type: "AllBlocksCleared" as const }),
);

export const batches: fc.Arbitrary<KvEventBatch> = fc.record({
  ts: fc.double({ min: 0, max: 4e9, noNaN: true }).map((ts) => ts + 0),
  events: fc.array(events, { maxLength: 20 }),
  dataParallelRank: orNull(fc.nat(7)),
});

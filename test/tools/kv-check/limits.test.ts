/** Tests the limits of the check of KV events, and how it tells similar faults of sequences apart. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { KvEventsEncoder } from "../../../src/kv-events/encode.ts";
import { sequenceFrame } from "../../../src/kv-events/replay.ts";
import { KvChecker, type KvReport } from "../../../src/tools/kv-check/checker.ts";

setDefaultTimeout(60_000);

const encoder = new KvEventsEncoder("0.33.0");
const REST = {
  ...{
    loraId: null,
    medium: "GPU",
    loraName: null,
    extraKeys: null,
    kvCacheSpecKind: null,
    kvCacheSpecSlidingWindow: null,
  },
  ...{ locality: null, ownership: null, sessionId: null, lookaheadTokenIds: null },
};

/** Returns a payload that stores blocks of one token without a parent. */
function payloadOf(hashes: readonly bigint[], groupIdx: number | null = null): Buffer {
  const tokenIds = hashes.map(() => 1);
  const shared = { blockHashes: hashes, parentBlockHash: null, tokenIds, blockSize: 1, groupIdx };
  return encoder.encode({ ts: 0, events: [{ type: "BlockStored", ...shared, ...REST }], dataParallelRank: 0 });
}

const send = (checker: KvChecker, sequence: number, payload = payloadOf([BigInt(sequence)]), topic = "") =>
  checker.message([Buffer.from(topic), sequenceFrame(sequence), payload], 0);

const broken = ({ violated }: KvReport) =>
  Object.fromEntries(violated.map(({ id, violationCount }) => [id, violationCount]));

function brokenBy(sequences: readonly number[]): Record<string, number> {
  const checker = new KvChecker();
  for (const sequence of sequences) send(checker, sequence);
  return broken(checker.report());
}

const upTo = (count: number, from = 0) => Array.from({ length: count }, (_, at) => from + at);

test("batches wait for at most 16 later ones, and a late one is then told from a lost one", () => {
  expect(brokenBy([0, 1, ...upTo(16, 3), 2, 19])).toEqual({ K06: 1 });
  expect(brokenBy([0, 1, ...upTo(17, 3), 2, 20])).toEqual({ K04: 1, K06: 1 });
  expect(brokenBy([0, 1, ...upTo(17, 3)])).toEqual({ K04: 1 });
});

test("a batch is recognized for 1,024 later ones", () => {
  expect(brokenBy([...upTo(1024), 0, 1024])).toEqual({ K05: 1 });
  // An older one could begin other sequences, but these do not continue.
  expect(brokenBy([...upTo(1026), 0, 1026])).toEqual({ K06: 1 });
});

test("rows of sequences that take turns are two publishers, whichever is ahead", () => {
  expect(brokenBy(upTo(20).flatMap((at) => [100 + at, at]))).toHaveProperty("K08");
  expect(brokenBy(upTo(20).flatMap((at) => [at, 100 + at]))).toHaveProperty("K08");
  expect(brokenBy([...upTo(9), ...upTo(9)])).toEqual({ K05: 9 });
});

test("sequences that start again on a connection are a restart, on another one they are legal", () => {
  const other = upTo(9).map((at) => payloadOf([BigInt(500 + at)]));
  for (const isNewConnection of [false, true]) {
    const checker = new KvChecker();
    for (const sequence of upTo(9)) send(checker, sequence);
    if (isNewConnection) checker.joined();
    for (const [sequence, payload] of other.entries()) send(checker, sequence, payload);
    const report = checker.report();
    expect(broken(report)).toEqual(isNewConnection ? {} : { K07: 1 });
    expect([report.restarts, report.storedBlocks]).toEqual([1, 9]);
  }
});

test("a second connection with the same topic is a second publisher, unless the first has ended", () => {
  for (const hasLeft of [false, true]) {
    const checker = new KvChecker();
    checker.joined("a");
    checker.message([Buffer.from("t"), sequenceFrame(0), payloadOf([1n])], 0, "a");
    if (hasLeft) checker.left("a");
    checker.joined("b");
    checker.message([Buffer.from("t"), sequenceFrame(0), payloadOf([2n])], 0, "b");
    expect(broken(checker.report())).toEqual(hasLeft ? {} : { K08: 1 });
  }
});

test("a replay that never ends holds back at most 20,000 batches", () => {
  const payload = payloadOf([1n]);
  for (const count of [20_000, 20_001]) {
    const checker = new KvChecker({ onReplayWanted: () => {} });
    for (const sequence of upTo(count, 5)) send(checker, sequence, payload);
    const report = checker.report();
    expect(broken(report)).toEqual(count > 20_000 ? { K11: 1 } : {});
    expect(report.batches).toBe(count);
  }
});

test("topics and KV groups above the limits are left out", () => {
  const checker = new KvChecker();
  for (const topic of upTo(70)) send(checker, 0, payloadOf([1n]), `${topic}`);
  expect([checker.report().topics.length, checker.report().leftOut]).toEqual([64, 6]);
  const groups = new KvChecker();
  for (const group of upTo(70)) send(groups, group, payloadOf([1n], group));
  expect(groups.report().storedBlocks).toBe(64);
});

test("more blocks than the limit are forgotten, and nobody is accused", () => {
  const checker = new KvChecker({ numGpuBlocks: 2 ** 22 });
  const each = 2 ** 13;
  for (const sequence of upTo(2 ** 7 + 1)) send(checker, sequence, payloadOf(upTo(each, sequence * each).map(BigInt)));
  const removed = encoder.encode({
    ...{ ts: 0, dataParallelRank: 0 },
    events: [
      { type: "BlockRemoved", blockHashes: [0n], medium: "GPU", groupIdx: null, locality: null, ownership: null },
    ],
  });
  send(checker, 2 ** 7 + 1, removed);
  const report = checker.report();
  expect(report.errors).toEqual([]);
  expect(report.storedBlocks).toBe(each);
  expect(report.laws.find(({ id }) => id === "K14")!.reason).toContain("more than 1048576 blocks");
});

test("five violations of a law are kept, and the rest is counted", () => {
  const checker = new KvChecker();
  for (const _ of upTo(9)) checker.message([Buffer.alloc(1000)], 0);
  const [law] = checker.report().errors;
  expect([law!.id, law!.violations.length, law!.violationCount]).toEqual(["K01", 5, 9]);
});

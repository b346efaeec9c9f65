/** Tests that each law is broken by a small series of messages, and only that law. Faults of sequences are in other files. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { BlockRemoved, BlockStored, KvCacheEvent } from "../../../src/kv-events/batch.ts";
import { BlockHasher } from "../../../src/kv-events/block-hashes.ts";
import { KvEventsEncoder } from "../../../src/kv-events/encode.ts";
import { sequenceFrame } from "../../../src/kv-events/replay.ts";
import { KvChecker, type KvCheckOptions, type KvReport } from "../../../src/tools/kv-check/checker.ts";
import { figure, seed, sized } from "../../size.ts";
import { BlockPool } from "./block-pool.ts";

setDefaultTimeout(120_000);

const hasher = new BlockHasher("sha256", "0");
const TOKENS = [1, 2, 3, 4, 5, 6, 7, 8];
const first = hasher.hash(null, TOKENS.slice(0, 4), null);
const second = hasher.hash(first, TOKENS.slice(4), null);
const encoder = new KvEventsEncoder("0.33.0");

const stored = (changes: Partial<BlockStored> = {}): BlockStored => ({
  ...{ type: "BlockStored", blockHashes: [first, second], parentBlockHash: null, tokenIds: TOKENS, blockSize: 4 },
  ...{ loraId: null, medium: "GPU", loraName: null, extraKeys: [null, null], groupIdx: 0 },
  ...{ kvCacheSpecKind: "full_attention", kvCacheSpecSlidingWindow: null, locality: null, ownership: null },
  ...{ sessionId: null, lookaheadTokenIds: null },
  ...changes,
});
const removed = (changes: Partial<BlockRemoved> = {}): BlockRemoved => ({
  ...{ type: "BlockRemoved", blockHashes: [second], medium: "GPU", groupIdx: 0, locality: null, ownership: null },
  ...changes,
});
const payloadOf = (events: readonly KvCacheEvent[], dataParallelRank = 0) =>
  encoder.encode({ ts: 1, events, dataParallelRank });

const broken = ({ violated }: KvReport) => violated.map(({ id }) => id);

function reportOn(batches: readonly (readonly KvCacheEvent[])[], options: KvCheckOptions = {}): KvReport {
  const checker = new KvChecker(options);
  for (const [at, events] of batches.entries())
    checker.message([Buffer.alloc(0), sequenceFrame(at), payloadOf(events)], 1);
  return checker.report();
}

const other = Buffer.alloc(32, 7);
const stranger = stored({ blockHashes: [other], tokenIds: [9, 9, 9, 9], extraKeys: null });

test.each<readonly [law: string, batches: readonly (readonly KvCacheEvent[])[], options?: KvCheckOptions]>([
  ["K13", [[stored({ parentBlockHash: other, extraKeys: null })]]],
  ["K14", [[stored()], [removed(), removed()]]],
  ["K14", [[stored(), { type: "AllBlocksCleared" }, removed()]]],
  ["K14", [[stored()], [removed({ groupIdx: 1 })]]],
  ["K15", [[stored({ blockHashes: [other, other], extraKeys: null, tokenIds: Array(8).fill(1) })]]],
  ["K16", [[stored({ tokenIds: TOKENS.slice(1) })]]],
  ["K16", [[stored({ blockHashes: [], tokenIds: [] })]]],
  ["K17", [[stored()], [stored({ blockHashes: [other], tokenIds: TOKENS, blockSize: 8, extraKeys: null })]]],
  ["K18", [[stored()]], { numGpuBlocks: 2 }],
  ["K19", [[stored()], [stored({ blockHashes: [other], tokenIds: [9, 9, 9, 9], extraKeys: [null] })]]],
  ["K19", [[stored({ extraKeys: [["salt"], null] })]], { hashAlgorithm: "sha256", hashSeed: "0" }],
  ["K20", [[stranger], [{ ...stranger, tokenIds: [8, 8, 8, 8] }]]],
])("%s alone is broken by events that break it", (law, batches, ...[options]) => {
  const names = broken(reportOn(batches, options));
  // Equal blocks in an event also have one hash for two contents.
  expect(names.filter((id) => !(law === "K15" && id === "K20"))).toEqual([law]);
});

test.each<readonly [what: string, batches: readonly (readonly KvCacheEvent[])[], options?: KvCheckOptions]>([
  ["a block with two copies", [[stored()], [stored()], [removed(), removed()]]],
  ["a pool that is full", [[stored()]], { numGpuBlocks: 3 }],
  ["blocks of another medium", [[stored({ medium: "CPU", tokenIds: [], blockSize: 0, parentBlockHash: other })]]],
  ["a group with a window", [[stored({ groupIdx: 1, kvCacheSpecKind: "sliding_window", parentBlockHash: other })]]],
  ["one hash in two groups", [[stored()], [stored({ groupIdx: 1 })], [removed(), removed({ groupIdx: 1 })]]],
  ["an adapter whose path is unknown", [[stored()], [stored({ ...stranger, loraName: "a", extraKeys: [["a"]] })]]],
  ["an unknown seed", [[stored({ ...stranger, extraKeys: [null] })]]],
])("%s is legal", (_, batches, ...[options]) => {
  expect(broken(reportOn(batches, options))).toEqual([]);
});

test("messages of another form, other payloads and other ranks are named", () => {
  const cases: readonly (readonly [law: string, frames: readonly Uint8Array[]])[] = [
    ["K01", [Buffer.alloc(0)]],
    ["K01", []],
    ["K01", [Buffer.alloc(0), Buffer.alloc(4), payloadOf([])]],
    ["K01", [Buffer.alloc(0), Buffer.alloc(8, 0xff), payloadOf([])]],
    ["K02", [Buffer.alloc(0), sequenceFrame(1), Buffer.from("hello")]],
    ["K08", [Buffer.alloc(0), sequenceFrame(1), payloadOf([stored()], 3)]],
  ];
  for (const [law, frames] of cases) {
    const checker = new KvChecker();
    checker.message([Buffer.alloc(0), sequenceFrame(0), payloadOf([stored()])], 1);
    checker.message(frames, 1);
    expect(broken(checker.report())).toEqual([law]);
  }
});

const page = (tokens: number, requests: number, more = "", blockSize = 4) =>
  `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{engine="0",block_size="${blockSize}",num_gpu_blocks="9"} 1
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0"} ${tokens}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} 0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0"} 0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop"} ${requests}
${more}`;
const preempted = '# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{engine="0"} 2\n';

test.each([
  ["equal tokens", page(8, 1), true, "held", []],
  ["fewer stored tokens, by less than a block", page(12, 1), true, "held", []],
  ["lost events", page(13, 1), true, "violated", ["K22"]],
  ["blocks that nobody computed", page(7, 1), true, "violated", ["K22"]],
  ["unknown aborts", page(100, 1), false, "not checkable", []],
  ["preemptions", page(100, 1, preempted), true, "not checkable", []],
  ["another block size", page(8, 1, "", 16), true, "held", ["K21"]],
  ["no page", "<html>", true, "not checkable", []],
] as const)("the metrics page with %s is compared with the events", (_, text, clean, verdict, laws) => {
  const checker = new KvChecker({ clean });
  checker.page(page(0, 0));
  checker.message([Buffer.alloc(0), sequenceFrame(0), payloadOf([stored()])], 1);
  checker.page(text);
  const report = checker.report();
  expect(broken(report)).toEqual([...laws]);
  expect(report.laws.find(({ id }) => id === "K22")!.verdict).toBe(verdict);
});

const FUZZED = sized("kv-check", { sample: 3000, whole: 300_000 });

test(`${FUZZED} messages with changed bytes end nothing, and hold no more than they had`, () => {
  const pool = new BlockPool({ profile: "0.22.0", hasIntHashes: true, blockSize: 2, blocks: 12, buffer: 9 });
  for (let run = 0; run < 9; run++) pool.step({ run, tokens: 20, salt: "a", skips: true });
  const checker = new KvChecker({ numGpuBlocks: 13, onReplayWanted: () => {} });
  let judged = 0;
  fc.assert(
    fc.property(
      fc.nat(pool.messages.length - 1),
      fc.array(fc.tuple(fc.nat(2), fc.nat(400), fc.nat(255)), { maxLength: 6 }),
      fc.boolean(),
      (at, changes, isReplayed) => {
        const frames = pool.messages[at]!.frames.map((frame) => Buffer.from(frame));
        for (const [frame, place, byte] of changes)
          if (frames[frame]!.length > 0) frames[frame]![place % frames[frame]!.length] = byte;
        if (isReplayed) checker.replayed("", frames);
        else checker.message(frames, 1e9);
        if (++judged % 100 === 0) checker.replayEnded("");
      },
    ),
    { numRuns: FUZZED, seed },
  );
  const report = checker.report();
  expect(report.scrapes).toBeGreaterThan(FUZZED / 3);
  expect(report.topics.length).toBeLessThanOrEqual(64);
  figure("fuzzedMessages", FUZZED);
});

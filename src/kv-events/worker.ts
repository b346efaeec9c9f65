/**
 * The thread that makes and publishes KV events. The first message opens the sockets, the next has the memory of the engines. An
 * empty message says that there is something to read.
 */
import { epochUsOf, WallClock } from "../base/clock.ts";
import { CacheFeedReader } from "../engine/cache-feed-reader.ts";
import { pacing } from "../wire/http/deadlines.ts";
import { CacheAssembler } from "./assembler.ts";
import { BatchCutter } from "./batch-cutter.ts";
import { BlockHasher } from "./block-hashes.ts";
import type { KvEventsConfig, KvEventsSource } from "./config.ts";
import { KvEventsPublisher } from "./publisher.ts";

interface OpenOrder {
  readonly config: KvEventsConfig;
  readonly seed: string;
  readonly ranks: readonly number[];
}

interface AttachOrder {
  readonly blockSize: number;
  readonly numGpuBlocks: number;
  /** Memory of each rank's feed. */
  readonly memories: readonly SharedArrayBuffer[];
}

/** Counts since the start, of all ranks together. */
export interface KvEventsLosses {
  /** Batches that were dropped, because publishing was too slow. */
  readonly batches: number;
  /** Events whose request or block is unknown, because of such drops. */
  readonly events: number;
  /** Messages that were not sent to a subscriber that does not read. */
  readonly messages: number;
}

export type KvEventsOrder =
  | { readonly open: OpenOrder }
  | { readonly attach: AttachOrder }
  | { readonly close: true }
  | null;
export type KvEventsReply =
  | { readonly sources: readonly (readonly [rank: number, source: KvEventsSource])[] }
  | { readonly failed: string }
  | { readonly line: string }
  | { readonly losses: KvEventsLosses }
  | { readonly closed: true };

declare const self: Worker;

/** Batches of a rank that are published before the sockets get a turn. */
const BATCHES_PER_TURN = 64;
const LOSSES_EVERY_US = 1_000_000;
const LINGER_MS = 1000;

const clock = new WallClock();
const timer = pacing(clock);
const reply = (message: KvEventsReply) => self.postMessage(message);

interface RankParts {
  readonly rank: number;
  readonly publisher: KvEventsPublisher;
  /** null: batches are sent as they come. */
  readonly cutter: BatchCutter | null;
  assembler: CacheAssembler | null;
  reader: CacheFeedReader | null;
}

const parts: RankParts[] = [];
let hasher: BlockHasher;
let hasIntHashes = true;
let isTurnOrdered = false;
let lossesShown = 0;
let lossesDueUs = 0;
/** Events that assemblers of earlier engines could not make. */
let unmadeBefore = 0;

function open({ config, seed, ranks }: OpenOrder): void {
  hasher = new BlockHasher(config.algorithm, seed);
  hasIntHashes = config.hasIntHashes;
  const log = (line: string) => reply({ line });
  try {
    for (const rank of ranks) {
      const publisher = new KvEventsPublisher({ config, rank, timer, log });
      const cutter = config.batchSize === null ? null : new BatchCutter(config.batchSize, timer, publisher);
      parts.push({ rank, publisher, cutter, assembler: null, reader: null });
    }
    reply({ sources: parts.map(({ rank, publisher }) => [rank, publisher.source]) });
  } catch (error) {
    for (const { publisher } of parts.splice(0)) void publisher.close();
    reply({ failed: (error as Error).message });
  }
}

function attach({ memories, ...pool }: AttachOrder): void {
  readAll();
  for (const [at, rankParts] of parts.entries()) {
    const { rank, publisher, cutter, assembler } = rankParts;
    const receiver = cutter ?? publisher;
    unmadeBefore += assembler?.unmade ?? 0;
    // The caches of the new engines are empty.
    if (assembler !== null)
      receiver.publish({
        ts: epochUsOf(clock.now()) / 1e6,
        events: [{ type: "AllBlocksCleared" }],
        dataParallelRank: rank,
      });
    rankParts.assembler = new CacheAssembler({ ...pool, rank, hasher, hasIntHashes }, receiver);
    rankParts.reader = new CacheFeedReader(memories[at]!, rankParts.assembler);
  }
  read();
}

function readAll(): void {
  for (const { reader } of parts) while (reader?.read(BATCHES_PER_TURN)) {}
}

function read(): void {
  let isMore = false;
  for (const { reader } of parts)
    if (reader !== null) isMore = reader.read(BATCHES_PER_TURN) || !reader.await() || isMore;
  showLosses();
  if (!isMore || isTurnOrdered) return;
  isTurnOrdered = true;
  clock.turn(() => {
    isTurnOrdered = false;
    read();
  });
}

/** Reports losses at most once a second, and only new ones. */
function showLosses(): void {
  const nowUs = clock.now();
  if (nowUs < lossesDueUs) return;
  const sum = (count: (of: RankParts) => number) => parts.reduce((all, of) => all + count(of), 0);
  const losses: KvEventsLosses = {
    batches: sum(({ publisher }) => publisher.droppedBatches),
    events: unmadeBefore + sum(({ assembler }) => assembler?.unmade ?? 0),
    messages: sum(({ publisher }) => publisher.droppedMessages),
  };
  const all = losses.batches + losses.events + losses.messages;
  if (all === lossesShown) return;
  lossesShown = all;
  lossesDueUs = nowUs + LOSSES_EVERY_US;
  reply({ losses });
}

async function close(): Promise<void> {
  readAll();
  for (const { cutter } of parts) cutter?.flush();
  await Promise.all(parts.splice(0).map(({ publisher }) => publisher.close(LINGER_MS)));
  reply({ closed: true });
}

self.onmessage = ({ data }: MessageEvent<KvEventsOrder>) => {
  if (data === null) read();
  else if ("open" in data) open(data.open);
  else if ("attach" in data) attach(data.attach);
  else void close();
};

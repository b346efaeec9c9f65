/** Plays a recorded trace of vLLM's scheduler on our core, and returns the batches that would be published. */
import { spyOn } from "bun:test";
import { Config } from "../../assembly/layout.ts";
import { Batch } from "../../src/engine/batch.ts";
import { CacheFeed } from "../../src/engine/cache-feed.ts";
import { CacheFeedReader } from "../../src/engine/cache-feed-reader.ts";
import type { LoopObserver } from "../../src/engine/lateness/loop-observer.ts";
import { CacheAssembler } from "../../src/kv-events/assembler.ts";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";
import { BlockHasher } from "../../src/kv-events/block-hashes.ts";
import type { Recording } from "../golden/recording.ts";

/** Events as recorded: `["S", parent, hashes, extra keys]`, `["R", [hash]]`, `["C"]`. */
type RecordedEvent = readonly unknown[];

export interface PlayedEvents {
  readonly batches: readonly KvEventBatch[];
  /** Our events in the recorded form, with hashes numbered as they first appear. */
  readonly ours: readonly RecordedEvent[];
  readonly recorded: readonly RecordedEvent[];
  /** Events that could not be made. */
  readonly unmade: number;
}

const HASHER = new BlockHasher("sha256_cbor", "0");
const STEP = { startUs: 1 } as Parameters<NonNullable<LoopObserver["started"]>>[0];

export function playedEvents(recording: Recording, module: WebAssembly.Module): PlayedEvents {
  const batches: KvEventBatch[] = [];
  // The runner of traces drains the core's events, that of scheduler logs does not.
  const tap = new BatchTap(!recording.rows.some(({ t }) => t === "s"), (batch) => batches.push(batch));
  const recorded: RecordedEvent[] = [];
  try {
    const runner = recording.start(module);
    for (const row of recording.rows) {
      runner.run(row);
      recorded.push(...((row.ev as RecordedEvent[] | undefined) ?? []).map((event) => event.slice(0, 3)));
    }
  } finally {
    tap.restore();
  }
  tap.finish();
  const numbers = new Map<string, number>();
  const ours = batches.flatMap(({ events }) => events.map((event) => recordedForm(event, numbers)));
  return { batches, ours, recorded, unmade: tap.unmade };
}

/** Feeds the calls of a batch to a cache feed, as the engine does. */
class BatchTap {
  #feed: CacheFeed | null = null;
  #assembler: CacheAssembler | null = null;
  #reader: CacheFeedReader | null = null;
  #observer: LoopObserver = {};
  readonly #spies: { mockRestore(): void }[] = [];

  constructor(
    readonly drains: boolean,
    readonly publish: (batch: KvEventBatch) => void,
  ) {
    const tap = this;
    const { add, plan, take, close, resetPrefixCache } = Batch.prototype;
    this.#spies = [
      spyOn(Batch.prototype, "add").mockImplementation(function (this: Batch, request, queuedUs) {
        const handle = add.call(this, request, queuedUs);
        // The runner knows salts as numbers only.
        const cacheSalt = request.saltLo === 0 ? "" : `salt-${request.saltLo}`;
        tap.#of(this).submitted(handle, { ...request, cacheSalt });
        return handle;
      }),
      spyOn(Batch.prototype, "plan").mockImplementation(function (this: Batch, nowUs) {
        const us = plan.call(this, nowUs);
        tap.#of(this);
        tap.#observer.planned!(nowUs);
        return us;
      }),
      spyOn(Batch.prototype, "take").mockImplementation(function (this: Batch, nowUs) {
        const rows = take.call(this, nowUs);
        tap.#of(this);
        tap.#observer.started!(STEP);
        tap.#reader!.read(100);
        return rows;
      }),
      spyOn(Batch.prototype, "close").mockImplementation(function (this: Batch, handle, reason, tokens, nowUs) {
        const isOpen = close.call(this, handle, reason, tokens, nowUs);
        if (isOpen) tap.#of(this).ended(handle);
        return isOpen;
      }),
      spyOn(Batch.prototype, "resetPrefixCache").mockImplementation(function (this: Batch, force) {
        const isDone = resetPrefixCache.call(this, force);
        tap.#of(this);
        tap.#observer.planned!(0);
        return isDone;
      }),
    ];
  }

  get unmade(): number {
    return this.#assembler?.unmade ?? 0;
  }

  restore(): void {
    for (const spy of this.#spies) spy.mockRestore();
  }

  /** Publishes the events after the last step. */
  finish(): void {
    this.#observer.planned?.(0);
    this.#observer.started?.(STEP);
    this.#reader?.read(100);
  }

  #of(batch: Batch): CacheFeed {
    if (this.#feed !== null) return this.#feed;
    const { core } = batch;
    const config = new Float64Array(core.exports.memory.buffer, core.exports.configAt(), Config.Count);
    const adapter = (number: number) => ({ name: `lora-${number}`, path: `/lora/${number}` });
    this.#feed = new CacheFeed({ wake: () => {}, batchesMost: 0, epochUs: 1e15, adapter, drains: this.drains });
    this.#observer = this.#feed.on(core);
    const pool = { blockSize: config[Config.BlockSize]!, numGpuBlocks: config[Config.NumGpuBlocks]! };
    this.#assembler = new CacheAssembler(
      { ...pool, rank: 0, hasIntHashes: false, hasher: HASHER },
      { publish: this.publish, dropped: () => {} },
    );
    this.#reader = new CacheFeedReader(this.#feed.memory, this.#assembler);
    return this.#feed;
  }
}

/** Numbers the hashes of an event in the order of the recording: parent, then blocks. */
function recordedForm(event: KvCacheEvent, numbers: Map<string, number>): RecordedEvent {
  const numberOf = (hash: unknown): number => {
    const key = Buffer.from(hash as Uint8Array).toString("hex");
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key)!;
  };
  if (event.type === "AllBlocksCleared") return ["C"];
  if (event.type === "BlockRemoved") return ["R", event.blockHashes.map(numberOf)];
  const parent = event.parentBlockHash === null ? null : numberOf(event.parentBlockHash);
  return ["S", parent, event.blockHashes.map(numberOf)];
}

/** The KV events of a process: the thread that publishes them, and the feeds that its engines write. */
import { onThreadEnd } from "../base/thread-end.ts";
import { CacheFeed } from "../engine/cache-feed.ts";
import type { AdapterName } from "../engine/interface/cache-records.ts";
import { DEFAULT_HASH_SEED, drawsSeed } from "./block-hashes.ts";
import type { KvEventsConfig, KvEventsSource } from "./config.ts";
import type { KvEventsLosses, KvEventsOrder, KvEventsReply } from "./worker.ts";

export interface KvEventsOptions {
  readonly config: KvEventsConfig;
  /** Number of the process's first engine among those of all processes. */
  readonly engineFirst: number;
  readonly engines: number;
  /** Returns a seed that nobody can guess. */
  readonly drawSeed: () => string;
  readonly log: (line: string) => void;
}

/** Engines whose prefix caches are published from now on. */
export interface AttachedEngines {
  readonly blockSize: number;
  readonly numGpuBlocks: number;
  /** Microseconds since 1970 at the 0 of the engines' clock. */
  readonly epochUs: number;
  /** Returns the adapter with this number, from 1. */
  readonly adapter: (number: number) => AdapterName | null;
  /** False if another reader empties the engines' buffers of events. */
  readonly drains: boolean;
}

const NO_LOSSES: KvEventsLosses = { batches: 0, events: 0, messages: 0 };

export class KvEvents {
  /** The resolved configuration by rank. */
  sources: Readonly<Record<string, KvEventsSource>> = {};
  losses = NO_LOSSES;
  #feeds: readonly CacheFeed[] = [];
  readonly #options: KvEventsOptions;
  readonly #worker: Worker;
  readonly #opened = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  #isOpen = false;
  #isDead = false;

  private constructor(options: KvEventsOptions) {
    const { config, engineFirst, engines, drawSeed } = options;
    this.#options = options;
    this.#worker = new Worker(new URL("./worker.ts", import.meta.url));
    this.#worker.unref();
    this.#worker.onmessage = ({ data }: MessageEvent<KvEventsReply>) => this.#take(data);
    onThreadEnd(this.#worker, (why) => this.#died(why));
    const seed = config.seed ?? (drawsSeed(config.algorithm) ? drawSeed() : DEFAULT_HASH_SEED);
    const ranks = Array.from({ length: engines }, (_, at) => config.firstRank + engineFirst + at);
    this.#post({ open: { config, seed, ranks } });
  }

  /** Opens the sockets. Rejects with an `Error` that names an address that cannot be used. */
  static async open(options: KvEventsOptions): Promise<KvEvents> {
    const events = new KvEvents(options);
    await events.#opened.promise.catch((why) => {
      events.#isDead = true;
      events.#worker.terminate();
      throw why;
    });
    return events;
  }

  /** Publishes the caches of these engines in place of earlier ones. Returns a feed for each engine. */
  attach({ blockSize, numGpuBlocks, ...engines }: AttachedEngines): readonly CacheFeed[] {
    const { config, engines: count } = this.#options;
    for (const feed of this.#feeds) feed.stop();
    const options = { ...engines, wake: () => this.#post(null), batchesMost: config.source.max_queue_size };
    this.#feeds = Array.from({ length: count }, () => new CacheFeed(options));
    if (this.#isDead) for (const feed of this.#feeds) feed.stop();
    this.#post({ attach: { blockSize, numGpuBlocks, memories: this.#feeds.map(({ memory }) => memory) } });
    return this.#feeds;
  }

  /** Publishes what is left. Call it after the engines have stopped. */
  async close(): Promise<void> {
    if (!this.#isDead) {
      this.#worker.ref();
      this.#post({ close: true });
      await this.#closed.promise;
    }
    this.#isDead = true;
    this.#worker.terminate();
  }

  #post(order: KvEventsOrder): void {
    if (!this.#isDead) this.#worker.postMessage(order);
  }

  #take(reply: KvEventsReply): void {
    if ("sources" in reply) {
      this.sources = Object.fromEntries(reply.sources);
      this.#isOpen = true;
      this.#opened.resolve();
    } else if ("failed" in reply) this.#opened.reject(new Error(reply.failed));
    else if ("line" in reply) this.#options.log(`KV events: ${reply.line}`);
    else if ("losses" in reply) this.#lost(reply.losses);
    else this.#closed.resolve();
  }

  #lost(losses: KvEventsLosses): void {
    const { batches, events, messages } = losses;
    this.losses = losses;
    this.#options.log(
      `KV events: dropped since the start: ${batches} batches because publishing was too slow, ${events} events because records before them were dropped, ${messages} messages to subscribers that do not read`,
    );
  }

  #died(why: string): void {
    if (this.#isDead) return;
    this.#isDead = true;
    for (const feed of this.#feeds) feed.stop();
    this.#opened.reject(new Error(`the publishing thread ended (${why})`));
    this.#closed.resolve();
    if (this.#isOpen)
      this.#options.log(`KV events: the publishing thread ended (${why}); serving continues without events`);
  }
}

/** Judges the messages of a publisher of KV events by the laws. Needs no socket and no clock. */
import type { LawResult, Report } from "../check/index.ts";
import type { HashFacts } from "./hash-facts.ts";
import type { BlockBudget } from "./ledger.ts";
import { type PageFigures, pageFigures } from "./page.ts";
import type { NumberedBatch } from "./sequence.ts";
import { KvEventStream } from "./stream.ts";
import { Tally } from "./tally.ts";

/** Topics of a publisher that are judged. Messages of further ones are counted as left out. */
const STREAMS_MOST = 64;
const SEQUENCE_BYTES = 8;
const DEFAULT_LATE_S = 1;

/** Facts about a publisher, and what its check may take for granted. */
export interface KvCheckOptions extends HashFacts {
  /** Name of the publisher in reports. Default: "publisher". */
  readonly name?: string;
  /** Blocks of the pool, with the null block. Default: as the metrics page says. */
  readonly numGpuBlocks?: number;
  /** True if the publisher began after the subscription, so that its first batch must have sequence 0. Default: false. */
  readonly fromStart?: boolean;
  /** True if no client disconnected, no request failed and none was reset during the check. Default: false. */
  readonly clean?: boolean;
  /** Seconds after which a batch counts as late. Default: 1. */
  readonly lateS?: number;
  /** Ids of the laws to judge. Default: all. */
  readonly only?: readonly string[];
  /** Asks for a replay from this sequence. Default: there is no replay. */
  readonly onReplayWanted?: (topic: string, start: number) => void;
}

/** Result of a check, with the members of a report on metrics. `scrapes` counts published messages. */
export interface KvReport extends Report {
  /** Batches that were in order and could be decoded, with those of replays. */
  readonly batches: number;
  /** Events in these batches. */
  readonly events: number;
  /** Blocks that are stored for certain at the end. */
  readonly storedBlocks: number;
  /** Algorithm and seed of the hashes in words. null: not found. */
  readonly hashing: string | null;
  /** Topics of its messages, in the order of their first one. */
  readonly topics: readonly string[];
}

interface TopicStream {
  readonly stream: KvEventStream;
  peer: string;
}

/** A message of a publisher: topic, sequence, payload. */
export type KvFrames = readonly Uint8Array[];

/** Checks the messages of one publisher as they come. */
export class KvChecker {
  readonly #tally: Tally;
  readonly #options: KvCheckOptions;
  readonly #streams = new Map<string, TopicStream>();
  readonly #peers = new Set<string>();
  readonly #budget: BlockBudget = { used: 0 };
  readonly #unreachable: { source: string; atS: number; why: string }[] = [];
  #leftOut = 0;
  #messages = 0;
  #firstPage: PageFigures | null = null;
  #firstStoredTokens = 0;
  #usable: number | null;

  constructor(options: KvCheckOptions = {}) {
    this.#options = options;
    this.#tally = new Tally(options.name ?? "publisher");
    this.#usable = options.numGpuBlocks === undefined ? null : options.numGpuBlocks - 1;
  }

  /** Published messages that were taken. */
  get messages(): number {
    return this.#messages;
  }

  /** Says that a connection begins. Batches before it may be missing. */
  joined(peer = ""): void {
    this.#peers.add(peer);
    for (const topic of this.#streams.values()) if (topic.peer === peer) topic.stream.order.reconnected();
  }

  /** Says that a connection has ended. */
  left(peer = ""): void {
    this.#peers.delete(peer);
  }

  /** Takes a published message. `atS`: time of arrival in seconds since 1970. */
  message(frames: KvFrames, atS: number, peer = ""): void {
    this.#tally.atS = atS;
    this.#messages++;
    const numbered = this.#numbered(frames, atS);
    if (numbered === null) return;
    const topic = Buffer.from(frames[0]!).toString();
    this.#streamOf(topic, peer, numbered)?.order.take(numbered);
  }

  /** Takes a message of a replay. */
  replayed(topic: string, frames: KvFrames): void {
    const numbered = this.#numbered(frames, null);
    if (numbered !== null) this.#streams.get(topic)?.stream.order.takeReplayed(numbered);
  }

  /** Ends a replay. `why`: the reason if its end marker is missing, else null. */
  replayEnded(topic: string, why: string | null = null): void {
    this.#streams.get(topic)?.stream.order.replayEnded(why);
  }

  /** Ends a replay that nobody is to blame for. `why`: the reason. */
  replayAbandoned(topic: string, why: string): void {
    this.#streams.get(topic)?.stream.order.replayAbandoned(why);
  }

  /** Stops waiting for missing batches. Call it when nothing has arrived for a while. */
  expire(): void {
    for (const { stream } of this.#streams.values()) stream.order.expire();
  }

  /**
   * Takes a metrics page of the engine. The first one should be taken before the first batch, the last one when all events of
   * the requests have arrived.
   */
  page(text: string | Uint8Array, contentType: string | null = null): void {
    const [first] = this.#streams.values();
    const rank = first?.stream.rank ?? 0;
    const figures = pageFigures(text, contentType, String(rank));
    if ("why" in figures) {
      this.noPage(figures.why);
      return;
    }
    if (this.#options.numGpuBlocks === undefined && figures.numGpuBlocks !== null)
      this.#usable = figures.numGpuBlocks - 1;
    if (first !== undefined) this.#judgeBlockSize(figures, first.stream);
    if (this.#firstPage === null) {
      this.#firstPage = figures;
      this.#firstStoredTokens = first?.stream.ledger.storedTokens ?? 0;
    } else if (first !== undefined) this.#judgeTokens(this.#firstPage, figures, first.stream);
  }

  /** Says why there is no metrics page. */
  noPage(why: string): void {
    for (const id of ["K21", "K22"] as const) this.#tally.unjudged(id, `no metrics page: ${why}`);
  }

  /** Says that the publisher could not be checked. The sentence begins with its reason. */
  unreachable(why: string, atS: number): void {
    this.#unreachable.push({ source: this.#tally.source, atS, why });
  }

  /** Decides about batches that wait, and returns the result. */
  report(): KvReport {
    for (const { stream } of this.#streams.values()) stream.order.settle();
    const streams = [...this.#streams.values()].map(({ stream }) => stream);
    const sum = (of: (stream: KvEventStream) => number) => streams.reduce((all, stream) => all + of(stream), 0);
    const laws = this.#tally.results(this.#options.only);
    const violated = laws.filter(({ verdict }) => verdict === "violated");
    const isError = ({ violations }: LawResult) => violations.some(({ severity }) => severity === "E");
    return {
      ...{ dialects: ["vllm"], versions: [], excerpts: [], generalOnly: null, namesMissing: [] },
      scrapes: this.#messages,
      batches: sum(({ batches }) => batches),
      applicable: laws.filter(({ verdict }) => verdict !== "not checkable").length,
      restarts: sum(({ order }) => order.restarts),
      leftOut: this.#leftOut,
      unreadable: this.#unreachable,
      ...{ laws, violated },
      errors: violated.filter(isError),
      warnings: violated.filter((law) => !isError(law)),
      events: sum(({ events }) => events),
      storedBlocks: sum(({ ledger }) => ledger.certain),
      hashing: streams.map(({ ledger }) => ledger.hashing).find((found) => found !== null) ?? null,
      topics: [...this.#streams.keys()],
    };
  }

  #numbered(frames: KvFrames, atS: number | null): NumberedBatch | null {
    const [topic, sequence, payload] = frames;
    const isMessage = frames.length === 3 && sequence!.length === SEQUENCE_BYTES;
    const number = isMessage ? Buffer.from(sequence!).readBigUInt64BE() : null;
    const isWhole = number !== null && number <= BigInt(Number.MAX_SAFE_INTEGER);
    this.#tally.judge("K01", isWhole, () =>
      number === null
        ? `a message has frames of ${frames.slice(0, 5).map(({ length }) => length)} bytes`
        : `sequence ${number} is above 2^53 (topic of ${topic!.length} bytes)`,
    );
    return isWhole ? { sequence: Number(number), payload: payload!, atS } : null;
  }

  #streamOf(topic: string, peer: string, batch: NumberedBatch): KvEventStream | null {
    const known = this.#streams.get(topic);
    if (known === undefined) return this.#newStream(topic, peer);
    if (known.peer === peer) return known.stream;
    if (this.#peers.has(known.peer)) {
      this.#tally.broken("K08", `batch ${batch.sequence} comes over another connection than those before it`);
      return null;
    }
    known.peer = peer;
    known.stream.order.reconnected();
    return known.stream;
  }

  #newStream(topic: string, peer: string): KvEventStream | null {
    if (this.#streams.size >= STREAMS_MOST) {
      this.#leftOut++;
      return null;
    }
    const { fromStart = false, lateS = DEFAULT_LATE_S, onReplayWanted, ...facts } = this.#options;
    const stream = new KvEventStream(this.#tally, this.#budget, {
      ...facts,
      ...{ isFromStart: fromStart, lateS, usableBlocks: () => this.#usable },
      requestReplay: onReplayWanted === undefined ? null : (start) => onReplayWanted(topic, start),
    });
    this.#peers.add(peer);
    this.#streams.set(topic, { stream, peer });
    return stream;
  }

  #judgeBlockSize({ blockSize }: PageFigures, { ledger }: KvEventStream): void {
    if (blockSize === null) this.#tally.unjudged("K21", "the page has no block_size in vllm:cache_config_info");
    if (blockSize === null) return;
    for (const size of ledger.blockSizes)
      this.#tally.judge("K21", size === blockSize, () => `events have blocks of ${size} tokens, the page ${blockSize}`);
  }

  #judgeTokens(before: PageFigures, now: PageFigures, { ledger }: KvEventStream): void {
    const why = this.#whyNoTokens(before, now, ledger.blockSizes.length);
    if (why !== null) {
      this.#tally.unjudged("K22", why);
      return;
    }
    const stored = ledger.storedTokens - this.#firstStoredTokens;
    const computed = now.computedTokens! - before.computedTokens!;
    const requests = now.requests! - before.requests!;
    const most = requests * ledger.blockSizes[0]!;
    const holds = stored <= computed && stored >= computed - most;
    const facts = `${stored} tokens were stored, ${computed} computed by ${requests} requests`;
    this.#tally.judge("K22", holds, () => facts);
  }

  /** Returns the reason why computed tokens cannot be compared, or null. */
  #whyNoTokens(before: PageFigures, now: PageFigures, groups: number): string | null {
    if (!this.#options.clean)
      return "aborted and failed requests do not show on the page (--clean states that there are none)";
    if (before.isAtRest !== true || now.isAtRest !== true) return "requests ran at the first or last page";
    if (groups !== 1) return "there is not exactly one KV group";
    if (now.disturbances > before.disturbances) return "there were preemptions, or tokens from another cache";
    return [before, now].some(({ computedTokens, requests }) => computedTokens === null || requests === null)
      ? "the page lacks a counter of tokens or requests"
      : null;
  }
}

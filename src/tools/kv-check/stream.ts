/** The batches of one topic from one publisher: puts them in order, decodes them, and applies them to a ledger. */
import type { KvEventBatch } from "../../kv-events/batch.ts";
import { type DecodedKvEvent, decodeKvEvents, KvEventsError } from "../../kv-events/decode.ts";
import type { HashFacts } from "./hash-facts.ts";
import { type BlockBudget, BlockLedger } from "./ledger.ts";
import { BatchOrder, type NumberedBatch, type OrderedBatchReceiver } from "./sequence.ts";
import type { Tally } from "./tally.ts";

export interface StreamOptions extends HashFacts {
  /** True if the publisher began after the subscription. */
  readonly isFromStart: boolean;
  /** Seconds after which a batch counts as late. */
  readonly lateS: number;
  readonly requestReplay: ((start: number) => void) | null;
  /** Returns the blocks of the pool without the null block, or null if it is unknown. */
  readonly usableBlocks: () => number | null;
}

export class KvEventStream implements OrderedBatchReceiver {
  /** Batches that were applied, and events in them. */
  batches = 0;
  events = 0;
  readonly order: BatchOrder;
  readonly ledger: BlockLedger;
  readonly requestReplay: ((start: number) => void) | null;
  /** Rank of the first batch. undefined: none came. */
  #rank: number | null | undefined = undefined;
  /** Least difference between arrival and time of a batch, in seconds. It contains the difference of the clocks. */
  #leastDelayS = Number.POSITIVE_INFINITY;

  constructor(
    private readonly tally: Tally,
    budget: BlockBudget,
    private readonly options: StreamOptions,
  ) {
    this.requestReplay = options.requestReplay;
    this.ledger = new BlockLedger(tally, budget, options);
    this.order = new BatchOrder(tally, this, options.isFromStart);
  }

  /** Rank of the publisher, 0 if it names none. */
  get rank(): number {
    return this.#rank ?? 0;
  }

  apply({ payload, sequence, atS }: NumberedBatch): void {
    let batch: KvEventBatch<DecodedKvEvent>;
    try {
      batch = decodeKvEvents(payload);
    } catch (error) {
      if (!(error instanceof KvEventsError)) throw error;
      this.tally.broken("K02", `batch ${sequence}: ${error.message}`);
      this.forget("a batch could not be decoded");
      return;
    }
    this.tally.judge("K02", true, String);
    if (this.#isOtherRank(batch, sequence)) return;
    if (atS !== null) this.#judgeDelay(atS - batch.ts, sequence);
    this.batches++;
    for (const event of batch.events) this.#applyEvent(event, sequence);
    const usable = this.options.usableBlocks();
    if (usable === null) this.tally.unjudged("K18", "the size of the pool is unknown (--metrics, --num-gpu-blocks)");
    else this.ledger.judgePool(usable);
  }

  forget(why: string): void {
    this.ledger.forget(why);
  }

  restarted(): void {
    this.ledger.cleared();
    this.#rank = undefined;
    this.#leastDelayS = Number.POSITIVE_INFINITY;
  }

  #isOtherRank({ dataParallelRank: rank }: KvEventBatch<unknown>, sequence: number): boolean {
    this.#rank ??= rank;
    if (rank === null || this.#rank === rank) return false;
    this.tally.broken("K08", `batch ${sequence} is from rank ${rank}, others are from rank ${this.#rank}`);
    return true;
  }

  #judgeDelay(delayS: number, sequence: number): void {
    this.#leastDelayS = Math.min(this.#leastDelayS, delayS);
    const lateS = delayS - this.#leastDelayS;
    this.tally.judge(
      "K12",
      lateS <= this.options.lateS,
      () => `batch ${sequence} arrived ${lateS.toFixed(3)} s later after its time than the fastest batch`,
    );
  }

  #applyEvent({ event, unknownFields }: DecodedKvEvent, sequence: number): void {
    this.events++;
    const { tally, ledger } = this;
    if (event.type === "unknown") {
      tally.broken("K03", `batch ${sequence} has the unknown event ${event.tag || '""'}`);
      return;
    }
    if (unknownFields.length === 0) tally.judge("K03", true, String);
    else
      tally.broken("K03", `${event.type} in batch ${sequence} has the unknown field ${unknownFields.join(", ")}`, "W");
    if (event.type === "BlockStored") ledger.stored(event);
    else if (event.type === "BlockRemoved") ledger.removed(event);
    else ledger.cleared();
  }
}

/**
 * What do the sequences of one instance do? Each has a slot. Direct: a batch has the next request of every slot, each at its
 * slot's place. Oldest: one request of each slot at a time goes into a dynamic batcher. `DirectSequenceBatch` and
 * `OldestSequenceBatch` of `sequence_batch_scheduler.cc` (2026).
 */
import { DynamicBatcher } from "./dynamic-batcher.ts";
import { NO_POLICY } from "./policy-queue.ts";
import type { BatchRow, PlacedBatch, Schedulable } from "./scheduler.ts";

/** As clients name a sequence; 0 and "" name none. */
export type SequenceId = bigint | string;

export interface Sequenced extends Schedulable {
  readonly sequenceId: SequenceId;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
}

export interface SequenceRules {
  /** Stands in what is refused. */
  readonly model: string;
  readonly instances: number;
  /** Sequences that an instance takes at a time. */
  readonly slots: number;
  /** A sequence whose last request came so long ago is over. */
  readonly idleUs: number;
  readonly strategy: DirectRules | OldestRules;
  /** A request without a sequence is one by itself. */
  readonly iterative: boolean;
}
export interface DirectRules {
  readonly kind: "direct";
  /** How long a batch may wait for that share of the slots; 0 of either: not at all. */
  readonly delayUs: number;
  readonly leastUse: number;
}
export interface OldestRules {
  readonly kind: "oldest";
  readonly maxBatchSize: number;
  readonly preferred: readonly number[];
  readonly delayUs: number;
  /** As in `BatchingRules`. */
  readonly looksAtEach?: boolean;
}

/** null: the sequence was idle for too long and is over. */
export type Queued<R> = R | null;

/** What an instance asks of the whole. */
export interface Releases<R> {
  /** Takes the slot back; `left` of a cancelled sequence are given up. Gives who is next in the slot. */
  release(instance: number, slot: number, left: Queued<R>[]): Queued<R>[];
}

export interface InstanceOrders<R> {
  readonly placed: PlacedBatch<R>[];
  readonly cancelled: R[];
  wakeUs: number;
}

export interface InstanceSequences<R> {
  enqueue(slot: number, request: Queued<R>, nowUs: number): void;
  freed(): void;
  /** A request has had its last response. */
  completed(request: R, nowUs: number): void;
  orders(nowUs: number, into: InstanceOrders<R>): void;
  readonly waiting: number;
}

const real = <R>(queue: readonly Queued<R>[]): number => queue.filter((one) => one !== null).length;

export class DirectSequences<R extends Sequenced> implements InstanceSequences<R> {
  readonly #at: number;
  readonly #rules: DirectRules;
  readonly #releases: Releases<R>;
  readonly #queues: { request: Queued<R>; sinceUs: number }[][];
  #busy = false;

  constructor(at: number, { slots }: SequenceRules, rules: DirectRules, releases: Releases<R>) {
    this.#at = at;
    this.#rules = rules;
    this.#releases = releases;
    this.#queues = Array.from({ length: slots }, () => []);
  }

  get waiting(): number {
    return this.#queues.reduce((all, queue) => all + real(queue.map(({ request }) => request)), 0);
  }

  enqueue(slot: number, request: Queued<R>, nowUs: number): void {
    this.#queues[slot]!.push({ request, sinceUs: nowUs });
  }

  freed(): void {
    this.#busy = false;
  }

  completed(): void {}

  orders(nowUs: number, into: InstanceOrders<R>): void {
    if (this.#busy) return;
    for (const [slot, queue] of this.#queues.entries()) {
      const first = queue[0];
      if (first === undefined || (first.request !== null && !first.request.cancelled)) continue;
      if (first.request === null) queue.shift();
      this.#release(slot, nowUs);
    }
    const active = this.#queues.flatMap((queue, slot) => (queue.length > 0 ? [{ slot, first: queue[0]! }] : []));
    if (active.length === 0) return;
    const { delayUs, leastUse } = this.#rules;
    if (delayUs > 0 && leastUse > 0) {
      const oldestUs = Math.min(...active.map(({ first }) => first.sinceUs));
      if (nowUs - oldestUs <= delayUs && Math.fround(active.length) / this.#queues.length < Math.fround(leastUse)) {
        into.wakeUs = Math.min(into.wakeUs, oldestUs + delayUs + 1);
        return;
      }
    }
    // Whoever has the first slot that is not empty says which shapes go together.
    const pattern = active[0]!.first.request!;
    const rows: BatchRow<R>[] = [];
    for (let slot = 0; slot <= active.at(-1)!.slot; slot++) {
      const request = this.#queues[slot]![0]?.request;
      const ready = request != null && request.likeness === pattern.likeness;
      rows.push({ request: ready ? request : pattern, slot, ready });
      if (!ready) continue;
      this.#queues[slot]!.shift();
      if (request.sequenceEnd) this.#release(slot, nowUs);
    }
    into.placed.push({ instance: this.#at, rows });
    this.#busy = true;
  }

  #release(slot: number, nowUs: number): void {
    const left = this.#queues[slot]!.splice(0).map(({ request }) => request);
    for (const request of this.#releases.release(this.#at, slot, left)) this.enqueue(slot, request, nowUs);
  }
}

export class OldestSequences<R extends Sequenced> implements InstanceSequences<R> {
  readonly #at: number;
  readonly #releases: Releases<R>;
  readonly #batcher: DynamicBatcher<R>;
  readonly #slots: { queue: Queued<R>[]; inFlight: boolean }[];
  /** By request, as long as it is in the batcher or runs. */
  readonly #slotOf = new Map<R, number>();

  constructor(at: number, { slots }: SequenceRules, rules: OldestRules, releases: Releases<R>) {
    const { maxBatchSize, preferred, delayUs, looksAtEach } = rules;
    this.#at = at;
    this.#releases = releases;
    this.#slots = Array.from({ length: slots }, () => ({ queue: [], inFlight: false }));
    this.#batcher = new DynamicBatcher<R>({
      instances: 1,
      maxBatchSize,
      preferred,
      delayUs,
      looksAtEach,
      levels: 0,
      defaultLevel: 0,
      policy: NO_POLICY,
      policies: new Map(),
      // Batches for one instance wait in a queue that the bound does not count.
      aheadMost: Number.POSITIVE_INFINITY,
    });
  }

  get waiting(): number {
    return this.#slots.reduce((all, { queue }) => all + real(queue), this.#batcher.waiting);
  }

  enqueue(slot: number, request: Queued<R>, nowUs: number): void {
    const { queue, inFlight } = this.#slots[slot]!;
    queue.push(request);
    if (!inFlight) this.#next(slot, nowUs);
  }

  freed(): void {
    this.#batcher.freed();
  }

  completed(request: R, nowUs: number): void {
    const slot = this.#slotOf.get(request);
    this.#slotOf.delete(request);
    if (slot !== undefined) this.#next(slot, nowUs);
  }

  /** Nothing of the slot is under way: its next request goes into the batcher. */
  #next(slot: number, nowUs: number): void {
    const one = this.#slots[slot]!;
    one.inFlight = false;
    for (;;) {
      const first = one.queue[0];
      if (first === undefined) return;
      let over = first === null || first.cancelled;
      if (first === null) one.queue.shift();
      else if (!first.cancelled) {
        one.queue.shift();
        over = first.sequenceEnd;
        one.inFlight = true;
        this.#slotOf.set(first, slot);
        this.#batcher.enqueue(first, nowUs);
      }
      if (!over) return;
      const next = this.#releases.release(this.#at, slot, one.queue.splice(0));
      one.queue.push(...next);
      if (one.inFlight || next.length === 0) return;
    }
  }

  orders(nowUs: number, into: InstanceOrders<R>): void {
    const { run, cancelled, wakeUs } = this.#batcher.orders(nowUs);
    const rows = (batch: readonly R[]) =>
      batch.map((request): BatchRow<R> => ({ request, slot: this.#slotOf.get(request)!, ready: true }));
    for (const batch of run) into.placed.push({ instance: this.#at, rows: rows(batch) });
    into.cancelled.push(...cancelled);
    if (wakeUs !== null) into.wakeUs = Math.min(into.wakeUs, wakeUs);
  }
}

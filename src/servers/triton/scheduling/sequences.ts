/**
 * Runs the sequences of one instance, each in its slot. Direct: a batch contains the next request of every slot, each at its
 * slot's row. Oldest: at most one request per slot is in a dynamic batcher. Source: `DirectSequenceBatch` and
 * `OldestSequenceBatch` in `sequence_batch_scheduler.cc` (2026).
 */
import { type BatchingRules, DynamicBatcher } from "./dynamic-batcher.ts";
import { NO_POLICY } from "./policy-queue.ts";
import type { BatchRow, PlacedBatch, Schedulable } from "./scheduler.ts";

/** A correlation id. 0 and "" mean that the request has no sequence. */
export type SequenceId = bigint | string;

export interface SequenceMember extends Schedulable {
  readonly sequenceId: SequenceId;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
}

export interface SequenceRules {
  /** Name of the model, for error messages. */
  readonly model: string;
  readonly instances: number;
  /** Number of sequences that an instance handles at the same time. */
  readonly slots: number;
  /** Microseconds without a request after which a sequence ends. */
  readonly idleUs: number;
  readonly strategy: DirectRules | OldestRules;
  /** True if a request without a correlation id forms a sequence by itself. */
  readonly iterative: boolean;
}
export interface DirectRules {
  readonly kind: "direct";
  /**
   * Microseconds for which a batch may wait until the share `leastUse` of the slots has a request. If either is 0, batches do
   * not wait.
   */
  readonly delayUs: number;
  readonly leastUse: number;
}
export interface OldestRules extends Pick<BatchingRules, "maxBatchSize" | "preferred" | "delayUs" | "looksAtEach"> {
  readonly kind: "oldest";
}

/** A request, or null as a mark that the sequence ended because it was idle for too long. */
export type QueueEntry<R> = R | null;

/** The part of the sequence batcher that takes back slots. */
export interface SlotReleaser<R> {
  /**
   * Frees a slot. `left`: the remaining entries of a cancelled sequence, which are dropped. Returns the requests of the next
   * sequence for the slot.
   */
  release(instance: number, slot: number, left: QueueEntry<R>[]): QueueEntry<R>[];
}

export interface InstanceOrders<R> {
  readonly placed: PlacedBatch<R>[];
  readonly cancelled: R[];
  wakeUs: number;
}

export interface InstanceSequences<R> {
  enqueue(slot: number, request: QueueEntry<R>, nowUs: number): void;
  freed(): void;
  /** Reports that a request has had its last response. */
  completed(request: R, nowUs: number): void;
  orders(nowUs: number, into: InstanceOrders<R>): void;
}

export class DirectSequences<R extends SequenceMember> implements InstanceSequences<R> {
  readonly #queues: { request: QueueEntry<R>; sinceUs: number }[][];
  #busy = false;

  constructor(
    private readonly at: number,
    { slots }: SequenceRules,
    private readonly rules: DirectRules,
    private readonly releases: SlotReleaser<R>,
  ) {
    this.#queues = Array.from({ length: slots }, () => []);
  }

  enqueue(slot: number, request: QueueEntry<R>, nowUs: number): void {
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
    const { delayUs, leastUse } = this.rules;
    if (delayUs > 0 && leastUse > 0) {
      const oldestUs = Math.min(...active.map(({ first }) => first.sinceUs));
      if (nowUs - oldestUs <= delayUs && Math.fround(active.length) / this.#queues.length < Math.fround(leastUse)) {
        into.wakeUs = Math.min(into.wakeUs, oldestUs + delayUs + 1);
        return;
      }
    }
    // The request in the first used slot decides which shapes this batch contains.
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
    into.placed.push({ instance: this.at, rows });
    this.#busy = true;
  }

  #release(slot: number, nowUs: number): void {
    const left = this.#queues[slot]!.splice(0).map(({ request }) => request);
    for (const request of this.releases.release(this.at, slot, left)) this.enqueue(slot, request, nowUs);
  }
}

export class OldestSequences<R extends SequenceMember> implements InstanceSequences<R> {
  readonly #batcher: DynamicBatcher<R>;
  readonly #slots: { queue: QueueEntry<R>[]; inFlight: boolean }[];
  /** Slot of each request that is in the batcher or runs. */
  readonly #slotOf = new Map<R, number>();

  constructor(
    private readonly at: number,
    { slots }: SequenceRules,
    { kind: _, ...rules }: OldestRules,
    private readonly releases: SlotReleaser<R>,
  ) {
    this.#slots = Array.from({ length: slots }, () => ({ queue: [], inFlight: false }));
    this.#batcher = new DynamicBatcher<R>({
      ...rules,
      instances: 1,
      levels: 0,
      defaultLevel: 0,
      policy: NO_POLICY,
      policies: new Map(),
      // Triton's limit does not count batches for a certain instance.
      aheadMost: Number.POSITIVE_INFINITY,
    });
  }

  enqueue(slot: number, request: QueueEntry<R>, nowUs: number): void {
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

  /** Puts the next request of a slot into the batcher. The slot must have no request in flight. */
  #next(slot: number, nowUs: number): void {
    const slotState = this.#slots[slot]!;
    slotState.inFlight = false;
    for (;;) {
      const first = slotState.queue[0];
      if (first === undefined) return;
      let over = first === null || first.cancelled;
      if (first === null) slotState.queue.shift();
      else if (!first.cancelled) {
        slotState.queue.shift();
        over = first.sequenceEnd;
        slotState.inFlight = true;
        this.#slotOf.set(first, slot);
        this.#batcher.enqueue(first, nowUs);
      }
      if (!over) return;
      const next = this.releases.release(this.at, slot, slotState.queue.splice(0));
      slotState.queue.push(...next);
      if (slotState.inFlight || next.length === 0) return;
    }
  }

  orders(nowUs: number, into: InstanceOrders<R>): void {
    const { run, cancelled, wakeUs } = this.#batcher.orders(nowUs);
    const rows = (batch: readonly R[]) =>
      batch.map((request): BatchRow<R> => ({ request, slot: this.#slotOf.get(request)!, ready: true }));
    for (const batch of run) into.placed.push({ instance: this.at, rows: rows(batch) });
    into.cancelled.push(...cancelled);
    if (wakeUs !== null) into.wakeUs = Math.min(into.wakeUs, wakeUs);
  }
}

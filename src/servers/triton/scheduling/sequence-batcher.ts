/**
 * Assigns sequences to slots of instances. All requests of a sequence use the same slot. Sequences without a slot wait in a
 * backlog. Source: `SequenceBatchScheduler` in `sequence_batch_scheduler.cc` (core 73aad7c3348d, 2026).
 */
import { invalidArg } from "../model-config/status.ts";
import type { BatchOrders, Scheduler } from "./scheduler.ts";
import {
  DirectSequences,
  type InstanceOrders,
  type InstanceSequences,
  OldestSequences,
  type QueueEntry,
  type SequenceId,
  type SequenceMember,
  type SequenceRules,
} from "./sequences.ts";

interface SlotPlace {
  readonly instance: number;
  readonly slot: number;
}
interface Backlog<R> {
  readonly requests: R[];
  untilUs: number;
}

/** A sequence in the backlog cannot become idle, so that its idle time is checked again after this time. */
const BACKLOG_LOOK_US = 50_000;
const NEVER = Number.POSITIVE_INFINITY;

/** A request to which the batcher assigns a sequence if it is iterative. */
export interface SequenceRequest extends SequenceMember {
  begin(id: bigint): void;
}

export class SequenceBatcher<R extends SequenceRequest> implements Scheduler<R> {
  readonly #instances: readonly InstanceSequences<R>[];
  /** Free slots: lowest slot first, then lowest instance. */
  readonly #free: SlotPlace[] = [];
  readonly #places = new Map<SequenceId, SlotPlace>();
  /** Sequences in the backlog whose last request has not arrived yet. */
  readonly #open = new Map<SequenceId, Backlog<R>>();
  readonly #backlogs: Backlog<R>[] = [];
  readonly #seenUs = new Map<SequenceId, number>();
  #lookUs = NEVER;
  #cancelled: R[] = [];
  #nextId = 1n;

  constructor(private readonly rules: SequenceRules) {
    const { instances, slots, strategy } = rules;
    this.#instances = Array.from({ length: instances }, (_, at) =>
      strategy.kind === "direct"
        ? new DirectSequences<R>(at, rules, strategy, this)
        : new OldestSequences<R>(at, rules, strategy, this),
    );
    for (let slot = 0; slot < slots; slot++)
      for (let instance = 0; instance < instances; instance++) this.#free.push({ instance, slot });
  }

  enqueue(request: R, nowUs: number): boolean {
    const { model, iterative, idleUs } = this.rules;
    if (request.batchSize > 1)
      throw invalidArg(
        `inference request to model '${model}' must specify batch-size 1 due to requirements of sequence batcher`,
      );
    if (!request.sequenceId) {
      if (!iterative)
        throw invalidArg(`inference request to model '${model}' must specify a non-zero or non-empty correlation ID`);
      request.begin(this.#nextId++);
    }
    const { sequenceId: id, sequenceStart: starts, sequenceEnd: ends } = request;
    const [place, backlog] = [this.#places.get(id), this.#open.get(id)];
    if (!starts && place === undefined && backlog === undefined)
      throw invalidArg(
        `inference request for sequence ${id} to model '${model}' must specify the START flag on the first request of the sequence`,
      );
    this.#seenUs.set(id, nowUs);
    this.#lookUs = Math.min(this.#lookUs, nowUs + idleUs);
    if (place === undefined && (backlog !== undefined || this.#free.length === 0)) {
      this.#wait(request, backlog, nowUs);
      return true;
    }
    const assigned = place ?? this.#free.shift()!;
    if (ends) this.#places.delete(id);
    else this.#places.set(id, assigned);
    this.#instances[assigned.instance]!.enqueue(assigned.slot, request, nowUs);
    return true;
  }

  #wait(request: R, into: Backlog<R> | undefined, nowUs: number): void {
    const { sequenceId: id, sequenceEnd: ends, timeoutUs } = request;
    const backlog = into ?? { requests: [], untilUs: NEVER };
    if (into === undefined) this.#backlogs.push(backlog);
    if (timeoutUs !== 0) backlog.untilUs = Math.min(backlog.untilUs, nowUs + timeoutUs);
    backlog.requests.push(request);
    if (ends) this.#open.delete(id);
    else this.#open.set(id, backlog);
  }

  freed(instance: number): void {
    this.#instances[instance]!.freed();
  }

  completed(request: R, nowUs: number): void {
    const { sequenceId: id, sequenceEnd: ended } = request;
    const place = this.#places.get(id);
    // With iterative sequences, one request is the whole sequence.
    if (this.rules.iterative && !ended && place !== undefined) {
      this.#places.delete(id);
      this.#seenUs.delete(id);
      this.#instances[place.instance]!.enqueue(place.slot, null, nowUs);
    }
    for (const instance of this.#instances) instance.completed(request, nowUs);
  }

  release(instance: number, slot: number, left: QueueEntry<R>[]): QueueEntry<R>[] {
    const [first] = left;
    const place = first ? this.#places.get(first.sequenceId) : undefined;
    // Another sequence may use the same correlation id by now.
    if (first && place?.instance === instance && place.slot === slot) {
      this.#places.delete(first.sequenceId);
      this.#seenUs.delete(first.sequenceId);
    }
    this.#cancelled.push(...left.filter((request) => request !== null));
    for (let next = this.#backlogs.shift(); next !== undefined; next = this.#backlogs.shift()) {
      const { requests } = next;
      const { sequenceId: id, sequenceEnd: whole } = requests.at(-1)!;
      const cancelled = requests.some((request) => request.cancelled);
      if (!whole) {
        this.#open.delete(id);
        if (!cancelled) this.#places.set(id, { instance, slot });
      }
      if (!cancelled) return requests;
      this.#cancelled.push(...requests);
    }
    const before = this.#free.findIndex(
      (place) => place.slot > slot || (place.slot === slot && place.instance > instance),
    );
    this.#free.splice(before === -1 ? this.#free.length : before, 0, { instance, slot });
    return [];
  }

  orders(nowUs: number): BatchOrders<R> {
    if (nowUs >= this.#lookUs) this.#endIdle(nowUs);
    const rejected = this.#expired(nowUs);
    const made: InstanceOrders<R> = { placed: [], cancelled: [], wakeUs: this.#lookUs };
    for (const instance of this.#instances) instance.orders(nowUs, made);
    const { placed } = made;
    const cancelled = [...this.#cancelled.splice(0), ...made.cancelled];
    const wakeUs = Math.min(made.wakeUs, ...this.#backlogs.map(({ untilUs }) => untilUs));
    return { run: [], placed, rejected, cancelled, wakeUs: wakeUs === NEVER ? null : wakeUs };
  }

  /** Ends sequences without a request for the idle time. Their slot becomes free after their queued requests have run. */
  #endIdle(nowUs: number): void {
    const { idleUs } = this.rules;
    let waitUs = idleUs;
    for (const [id, seenUs] of this.#seenUs) {
      const leftUs = seenUs + idleUs - nowUs;
      const place = this.#places.get(id);
      if (leftUs > 0) waitUs = Math.min(waitUs, leftUs);
      else if (place === undefined && this.#open.has(id)) waitUs = Math.min(waitUs, BACKLOG_LOOK_US);
      else {
        this.#seenUs.delete(id);
        if (place === undefined) continue;
        this.#places.delete(id);
        this.#instances[place.instance]!.enqueue(place.slot, null, nowUs);
      }
    }
    this.#lookUs = this.#seenUs.size === 0 ? NEVER : nowUs + waitUs;
  }

  /** Removes and returns the requests of sequences that waited in the backlog longer than one of their requests allows. */
  #expired(nowUs: number): R[] {
    const over = this.#backlogs.filter(({ untilUs }) => untilUs <= nowUs);
    for (const backlog of over) {
      const { sequenceId: id } = backlog.requests[0]!;
      if (this.#open.get(id) === backlog) this.#open.delete(id);
      this.#backlogs.splice(this.#backlogs.indexOf(backlog), 1);
    }
    return over.flatMap(({ requests }) => requests);
  }
}

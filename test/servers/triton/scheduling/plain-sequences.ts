/**
 * Implements a sequence batcher as plainly as possible, as a model for `sequence-batcher.ts`. It has a list of sequences, each
 * with its remaining requests, and a table of slots. The owner of a slot is searched each time. Iterative sequences are missing.
 */
import type { BatchRow, PlacedBatch } from "../../../../src/servers/triton/scheduling/scheduler.ts";
import type {
  DirectRules,
  SequenceId,
  SequenceMember,
  SequenceRules,
} from "../../../../src/servers/triton/scheduling/sequences.ts";
import { PlainBatcher } from "./plain-batcher.ts";

interface Sequence<R> {
  readonly id: SequenceId;
  readonly left: { readonly request: R; sinceUs: number }[];
  slot: Slot<R> | null;
  /** True if it accepts no more requests, because its end has arrived or it was idle. */
  closed: boolean;
  idle: boolean;
  /** End of its wait for a slot. */
  untilUs: number;
}
interface Slot<R> {
  readonly instance: number;
  readonly slot: number;
  owner: Sequence<R> | null;
  /** The request at the instance. Only with the strategy `oldest`. */
  inFlight: R | null;
}
interface Orders<R> {
  readonly placed: PlacedBatch<R>[];
  readonly rejected: R[];
  readonly cancelled: R[];
  wakeUs: number;
}

export class PlainSequences<R extends SequenceMember> {
  readonly #rules: SequenceRules;
  /** The slots in the order in which sequences get them. */
  readonly #slots: readonly Slot<R>[];
  readonly #busy: boolean[];
  readonly #batchers: readonly PlainBatcher<R>[];
  /** The sequences that are not over, in order of their first request. */
  #sequences: Sequence<R>[] = [];
  #cancelled: R[] = [];
  /** Arrival time of the last request of each id. The sequence may be over. */
  readonly #seenUs = new Map<SequenceId, number>();
  /** Time of the next search for idle sequences. */
  #lookUs = Infinity;

  constructor(rules: SequenceRules) {
    const { instances, slots, strategy } = rules;
    this.#rules = rules;
    const each = <T>(count: number, make: (at: number) => T) => Array.from({ length: count }, (_, at) => make(at));
    this.#slots = each(slots, (slot) =>
      each(instances, (instance): Slot<R> => ({ instance, slot, owner: null, inFlight: null })),
    ).flat();
    this.#busy = each(instances, () => false);
    const policy = { action: "REJECT", timeoutUs: 0, mayOverride: false, mostWaiting: 0 } as const;
    const more = { instances: 1, levels: 0, defaultLevel: 0, policy, policies: new Map(), aheadMost: Infinity };
    this.#batchers =
      strategy.kind === "direct" ? [] : each(instances, () => new PlainBatcher({ ...strategy, ...more }));
  }

  /** Returns false if the request's sequence has not begun. */
  enqueue(request: R, nowUs: number): boolean {
    let own = this.#open(request.sequenceId);
    if (own === undefined && !request.sequenceStart) return false;
    if (own === undefined) {
      const { sequenceId: id } = request;
      own = { id, left: [], slot: null, closed: false, idle: false, untilUs: Infinity };
      this.#sequences.push(own);
      const slot = this.#slots.find(({ owner }) => owner === null);
      if (slot !== undefined) this.#give(own, slot, nowUs);
    }
    if (own.slot === null && request.timeoutUs > 0) own.untilUs = Math.min(own.untilUs, nowUs + request.timeoutUs);
    own.left.push({ request, sinceUs: nowUs });
    own.closed = request.sequenceEnd;
    this.#seenUs.set(own.id, nowUs);
    this.#lookUs = Math.min(this.#lookUs, nowUs + this.#rules.idleUs);
    if (own.slot !== null) this.#advance(own.slot, nowUs);
    return true;
  }

  #open(id: SequenceId): Sequence<R> | undefined {
    return this.#sequences.find((one) => one.id === id && !one.closed);
  }

  freed(instance: number): void {
    this.#busy[instance] = false;
    this.#batchers[instance]?.freed();
  }

  completed(request: R, nowUs: number): void {
    const slot = this.#slots.find(({ inFlight }) => inFlight === request);
    if (slot === undefined) return;
    slot.inFlight = null;
    this.#advance(slot, nowUs);
  }

  orders(nowUs: number): Orders<R> {
    if (nowUs >= this.#lookUs) this.#endIdle(nowUs);
    const made: Orders<R> = { placed: [], rejected: [], cancelled: [], wakeUs: this.#lookUs };
    for (const one of this.#sequences.filter(({ slot, untilUs }) => slot === null && untilUs <= nowUs)) {
      made.rejected.push(...one.left.map(({ request }) => request));
      this.#forget(one);
    }
    for (let instance = 0; instance < this.#rules.instances; instance++) {
      const { strategy } = this.#rules;
      if (strategy.kind === "direct") this.#direct(instance, strategy, nowUs, made);
      else this.#oldest(instance, nowUs, made);
    }
    made.cancelled.push(...this.#cancelled.splice(0));
    for (const { slot, untilUs } of this.#sequences) if (slot === null) made.wakeUs = Math.min(made.wakeUs, untilUs);
    return made;
  }

  /** Takes the slots of idle sequences. A sequence that waits for a slot is checked again after 50 ms, or with an earlier one. */
  #endIdle(nowUs: number): void {
    const { idleUs } = this.#rules;
    const waitsUs = [idleUs];
    for (const [id, seenUs] of [...this.#seenUs]) {
      const own = this.#open(id);
      const isIdle = nowUs - seenUs >= idleUs;
      if (!isIdle) waitsUs.push(seenUs + idleUs - nowUs);
      else if (own !== undefined && own.slot === null) waitsUs.push(50_000);
      else this.#seenUs.delete(id);
      if (!isIdle || !own?.slot) continue;
      own.closed = true;
      own.idle = true;
      this.#advance(own.slot, nowUs);
    }
    this.#lookUs = this.#seenUs.size === 0 ? Infinity : nowUs + Math.min(...waitsUs);
  }

  #direct(instance: number, { delayUs, leastUse }: DirectRules, nowUs: number, made: Orders<R>): void {
    if (this.#busy[instance]) return;
    const slots = this.#slots.filter((one) => one.instance === instance);
    for (const slot of slots) this.#vacate(slot, nowUs);
    const firsts = slots.map(({ owner }) => owner?.left[0]);
    const there = firsts.filter((first) => first !== undefined);
    if (there.length === 0) return;
    const oldestUs = Math.min(...there.map(({ sinceUs }) => sinceUs));
    if (delayUs > 0 && there.length < leastUse * slots.length && nowUs <= oldestUs + delayUs) {
      made.wakeUs = Math.min(made.wakeUs, oldestUs + delayUs + 1);
      return;
    }
    const pattern = there[0]!.request;
    const last = firsts.findLastIndex((first) => first !== undefined);
    const rows = firsts.slice(0, last + 1).map((first, slot): BatchRow<R> => {
      const ready = first !== undefined && first.request.likeness === pattern.likeness;
      return { request: ready ? first.request : pattern, slot, ready };
    });
    made.placed.push({ instance, rows });
    this.#busy[instance] = true;
    for (const { slot, ready } of rows) {
      const one = slots[slot]!;
      if (!ready) continue;
      if (one.owner!.left.shift()!.request.sequenceEnd) this.#release(one, nowUs);
    }
  }

  #oldest(instance: number, nowUs: number, made: Orders<R>): void {
    const { run, cancelled, wakeUs } = this.#batchers[instance]!.orders(nowUs);
    const slotOf = (request: R) => this.#slots.find(({ inFlight }) => inFlight === request)!.slot;
    for (const batch of run)
      made.placed.push({ instance, rows: batch.map((request) => ({ request, slot: slotOf(request), ready: true })) });
    made.cancelled.push(...cancelled);
    made.wakeUs = Math.min(made.wakeUs, wakeUs ?? Infinity);
  }

  /** Gives the slot's next request to the instance when the one before has ended. Only with the strategy `oldest`. */
  #advance(slot: Slot<R>, nowUs: number): void {
    if (this.#rules.strategy.kind === "direct") return;
    while (slot.inFlight === null) {
      if (this.#vacate(slot, nowUs)) continue;
      const first = slot.owner?.left.shift()?.request;
      if (first === undefined) return;
      slot.inFlight = first;
      this.#batchers[slot.instance]!.enqueue(first, nowUs);
      if (first.sequenceEnd) this.#release(slot, nowUs);
    }
  }

  /** Takes the slot from a sequence that was idle and has run, or whose next request was cancelled. */
  #vacate(slot: Slot<R>, nowUs: number): boolean {
    const { owner } = slot;
    if (owner === null) return false;
    const [first] = owner.left;
    if (first === undefined ? !owner.idle : !first.request.cancelled) return false;
    this.#cancelled.push(...owner.left.map(({ request }) => request));
    if (first !== undefined && this.#open(owner.id) === owner) this.#seenUs.delete(owner.id);
    this.#release(slot, nowUs);
    return true;
  }

  /** Gives the slot to the sequence that has waited longest. A sequence with a cancelled request no longer waits. */
  #release(slot: Slot<R>, nowUs: number): void {
    this.#forget(slot.owner!);
    slot.owner = null;
    for (const next of this.#sequences.filter((one) => one.slot === null)) {
      if (!next.left.some(({ request }) => request.cancelled)) {
        this.#give(next, slot, nowUs);
        return;
      }
      this.#cancelled.push(...next.left.map(({ request }) => request));
      this.#forget(next);
    }
  }

  #give(sequence: Sequence<R>, slot: Slot<R>, nowUs: number): void {
    sequence.slot = slot;
    slot.owner = sequence;
    for (const one of sequence.left) one.sinceUs = nowUs;
  }

  #forget(sequence: Sequence<R>): void {
    this.#sequences = this.#sequences.filter((one) => one !== sequence);
  }
}

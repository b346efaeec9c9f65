/**
 * Implements the dynamic batcher as plainly as possible, as a model for `dynamic-batcher.ts`. It has one list of waiting
 * requests, which is sorted and searched each time. The thread's loop is in the order of the source
 * (`dynamic_batch_scheduler.cc`, core r24.10).
 */
import type { BatchingRules } from "../../../../src/servers/triton/scheduling/dynamic-batcher.ts";
import type { BatchOrders, Schedulable } from "../../../../src/servers/triton/scheduling/scheduler.ts";

interface Entry<R> {
  readonly request: R;
  readonly level: number;
  readonly sinceUs: number;
  untilUs: number;
  /** Place among the requests that timed out and continue to wait. 0: not timed out. */
  delayed: number;
}

interface Batch<R> {
  entries: Entry<R>[];
  executing: boolean;
  marked: boolean;
}

const IDLE_US = 500_000;
const sizeOf = (entries: readonly Entry<Schedulable>[]) =>
  entries.reduce((all, { request }) => all + request.batchSize, 0);

export class PlainBatcher<R extends Schedulable> {
  readonly #rules: BatchingRules;
  #waiting: Entry<R>[] = [];
  /** Requests that the last search found for the next batch. Null: the next search starts at the front. */
  #found: Entry<R>[] | null = null;
  /** Level at which the last search stopped. */
  #stoppedAt = 1;
  /** Batches that no instance has taken. */
  #ready: Batch<R>[] = [];
  #current: Batch<R> = { entries: [], executing: false, marked: false };
  #saturated = false;
  #queuedSize = 0;
  #nextPreferred = 0;
  /** Requests to answer at the thread's next turn. */
  #rejected: R[] = [];
  #cancelled: R[] = [];
  /** The thread's activity, and the time of its end. */
  #thread: { readonly does: "sleeps" | "delays" | "wants a slot" | "spins"; untilUs: number } = {
    does: "sleeps",
    untilUs: 0,
  };
  #notified = false;
  #idle: number;
  #delays = 0;

  constructor(rules: BatchingRules) {
    this.#rules = rules;
    this.#idle = rules.instances;
  }

  get waiting(): number {
    const ready = this.#ready.flatMap(({ entries }) => entries).length;
    return this.#waiting.length + ready + this.#rejected.length + this.#cancelled.length;
  }

  enqueue(request: R, nowUs: number): boolean {
    const { levels, defaultLevel, looksAtEach } = this.#rules;
    this.#passIdleTurns(nowUs);
    const inRange = request.priority >= 1 && request.priority <= levels;
    const level = levels === 0 ? 1 : inRange ? request.priority : defaultLevel;
    const policy = this.#policy(level);
    this.#queuedSize += request.batchSize;
    const others = this.#waiting.filter((one) => one.level === level).length;
    if (policy.mostWaiting > 0 && others >= policy.mostWaiting) return false;
    const limits = [policy.timeoutUs, policy.mayOverride ? request.timeoutUs : 0].filter((limit) => limit > 0);
    const limit = policy.timeoutUs === 0 ? 0 : Math.min(...limits);
    this.#waiting.push({ request, level, sinceUs: nowUs, untilUs: limit > 0 ? nowUs + limit : 0, delayed: 0 });
    const last = this.#found?.at(-1);
    if (level < this.#stoppedAt || (level === this.#stoppedAt && last !== undefined && last.delayed > 0))
      this.#found = null;
    const reached = this.#queuedSize >= this.#nextPreferred;
    if (this.#slotAvailable() && (looksAtEach || this.#saturated || this.#current.executing || reached))
      this.#notified = true;
    return true;
  }

  freed(): void {
    this.#idle++;
    this.#notified = true;
  }

  orders(nowUs: number): BatchOrders<R> {
    const made = { run: [] as R[][], rejected: [] as R[], cancelled: [] as R[], wakeUs: null as number | null };
    this.#dequeue(nowUs, made);
    const { does, untilUs } = this.#thread;
    const over = nowUs >= untilUs && this.#isWatched();
    if (does === "wants a slot" && !this.#slotAvailable()) {
      if (over) {
        const overdue = this.#waiting.filter((one) => this.#mayReject(one) && nowUs > one.untilUs);
        overdue.sort((a, b) => a.level - b.level);
        made.rejected.push(...overdue.map((one) => this.#remove(one)));
        this.#thread.untilUs = this.#nextTurn(nowUs);
      }
    } else if (does === "wants a slot" || does === "spins" || this.#notified || over)
      this.#turn(nowUs, over ? untilUs : nowUs, made);
    this.#notified = false;
    return { ...made, wakeUs: this.#isWatched() ? this.#thread.untilUs : null };
  }

  /** Idle instances take batches. */
  #dequeue(nowUs: number, made: { run: R[][] }): void {
    const { delayUs, maxBatchSize } = this.#rules;
    while (this.#idle > 0 && this.#ready.length > 0) {
      const batch = this.#ready.shift()!;
      batch.executing = true;
      let entries = batch.entries;
      let merges = delayUs > 0 && maxBatchSize > 1 && !batch.marked;
      while (merges && this.#ready.length > 0) {
        const [next] = this.#ready as [Batch<R>];
        const oldest = Math.min(...next.entries.map(({ sinceUs }) => sinceUs));
        merges = !next.marked && nowUs - oldest > delayUs;
        if (!merges) break;
        next.executing = true;
        const alike = next.entries[0]!.request.likeness === entries[0]!.request.likeness;
        merges = alike && sizeOf(entries) + sizeOf(next.entries) <= maxBatchSize;
        if (!merges) break;
        entries = [...entries, ...next.entries];
        this.#ready.shift();
      }
      made.run.push(entries.map(({ request }) => request));
      this.#idle--;
      this.#notified = true;
    }
  }

  #turn(nowUs: number, fromUs: number, made: { run: R[][]; rejected: R[]; cancelled: R[] }): void {
    for (;;) {
      made.rejected.push(...this.#rejected.splice(0));
      made.cancelled.push(...this.#cancelled.splice(0));
      if (this.#saturated || this.#current.executing) {
        this.#current = { entries: [], executing: false, marked: false };
        this.#saturated = false;
        this.#nextPreferred = 0;
      }
      if (this.#waiting.length === 0 || !this.#slotAvailable()) {
        this.#thread = { does: this.#waiting.length === 0 ? "sleeps" : "wants a slot", untilUs: fromUs + IDLE_US };
        return;
      }
      const before = this.#waiting.length;
      const outcome = this.#dynamicBatch(nowUs);
      if (typeof outcome === "number") {
        this.#thread = { does: "delays", untilUs: nowUs + outcome };
        return;
      }
      if (outcome.length > 0 && this.#current.entries.length === 0) this.#ready.push(this.#current);
      for (const one of outcome) {
        this.#remove(one);
        this.#current.entries.push(one);
        this.#queuedSize -= one.request.batchSize;
        this.#found = null;
      }
      const same = this.#waiting.length === before && !this.#saturated;
      this.#dequeue(nowUs, made);
      if (same) {
        this.#thread = { does: "spins", untilUs: Infinity };
        return;
      }
    }
  }

  /** Returns the requests that go into the batch, or the time to wait. */
  #dynamicBatch(nowUs: number): Entry<R>[] | number {
    const { maxBatchSize, preferred, delayUs } = this.#rules;
    const largest = Math.max(0, ...preferred);
    const already = this.#current.entries;
    const soonest = Math.min(...(this.#found ?? []).map(({ untilUs }) => untilUs || Infinity));
    const kept = this.#found !== null && soonest < Infinity && nowUs < soonest ? this.#found : [];
    if (kept.length === 0) this.#stoppedAt = 1;
    const taken = [...kept];
    let sendNow = false;
    let best = 0;
    for (const one of this.#walk(kept, nowUs)) {
      const together = [...already, ...taken];
      const size = sizeOf([...together, one]);
      if (together.length > 0) {
        if (size > largest && best === 0) {
          best = taken.length;
          this.#saturated = true;
        }
        const alike = one.request.likeness === together[0]!.request.likeness;
        if (size <= maxBatchSize && !alike) this.#current.marked = true;
        if (size > maxBatchSize || !alike) {
          sendNow = true;
          break;
        }
      }
      taken.push(one);
      if (preferred.includes(size)) best = taken.length;
    }
    this.#found = taken;
    const ageUs = nowUs - Math.min(...taken.map(({ sinceUs }) => sinceUs));
    const late = delayUs > 0 && ageUs >= delayUs;
    const whole = sizeOf([...already, ...taken]);
    if (best > 0 && !late) {
      if (delayUs === 0) this.#saturated = true;
      return taken.slice(0, best);
    }
    if (taken.length === 0) return [];
    if (sendNow || whole >= largest) {
      this.#saturated = true;
      return taken;
    }
    if (late || delayUs === 0) return taken;
    const next = preferred.find((size) => size > whole) ?? preferred[0] ?? 0;
    this.#nextPreferred = next === 0 ? 0 : next - sizeOf(already);
    if (!this.#saturated && already.length > 0 && !preferred.includes(sizeOf(already))) return taken;
    const ends = taken.map(({ untilUs }) => untilUs).filter((until) => until > 0);
    return Math.min(delayUs - ageUs, ...ends.map((until) => Math.max(1, until - nowUs + 1)));
  }

  /** Yields the requests after the kept ones. Removes requests that must not run. */
  *#walk(kept: readonly Entry<R>[], nowUs: number): Generator<Entry<R>> {
    const seen = new Set(kept);
    for (;;) {
      const place = ({ level, delayed }: Entry<R>) => level * 1e9 + delayed;
      const [one] = this.#waiting.filter((entry) => !seen.has(entry)).sort((a, b) => place(a) - place(b));
      if (one === undefined) return;
      this.#stoppedAt = one.level;
      const over = one.untilUs !== 0 && nowUs > one.untilUs;
      const out = one.delayed === 0 && one.request.cancelled ? this.#cancelled : over ? this.#rejected : null;
      if (out === this.#rejected && this.#policy(one.level).action === "DELAY")
        Object.assign(one, { delayed: ++this.#delays, untilUs: 0 });
      else if (out !== null) {
        out.push(this.#remove(one));
        this.#queuedSize -= one.request.batchSize;
      } else {
        seen.add(one);
        yield one;
      }
    }
  }

  #policy(level: number) {
    return (this.#rules.levels > 0 ? this.#rules.policies.get(level) : undefined) ?? this.#rules.policy;
  }

  #slotAvailable(): boolean {
    const { levels, policy, instances, aheadMost = 2 * instances } = this.#rules;
    const limited = levels > 0 || policy.timeoutUs > 0 || policy.mayOverride || policy.mostWaiting > 0;
    return limited ? this.#idle > 0 : this.#ready.length < aheadMost;
  }

  #mayReject({ level, untilUs, delayed }: Entry<R>): boolean {
    return untilUs > 0 && delayed === 0 && this.#policy(level).action === "REJECT";
  }

  /** True if the end of the thread's wait can be noticed from outside. */
  #isWatched(): boolean {
    const { does } = this.#thread;
    if (does === "wants a slot") return this.#waiting.some((one) => this.#mayReject(one));
    return does === "delays" || (does === "sleeps" && this.#waiting.length > 0);
  }

  #nextTurn(nowUs: number): number {
    let next = this.#thread.untilUs;
    while (next <= nowUs) next += IDLE_US;
    return next;
  }

  #passIdleTurns(nowUs: number): void {
    if (!this.#isWatched() && this.#thread.untilUs < Infinity) this.#thread.untilUs = this.#nextTurn(nowUs);
  }

  #remove(entry: Entry<R>): R {
    this.#waiting = this.#waiting.filter((one) => one !== entry);
    return entry.request;
  }
}

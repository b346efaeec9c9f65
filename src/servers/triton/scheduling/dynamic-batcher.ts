/**
 * Makes batches as the thread of Triton's dynamic batcher does: `dynamic_batch_scheduler.cc`, `scheduler_utils.cc`,
 * `rate_limiter.cc` and `instance_queue.cc`, equal in core r24.10 (2.51) and r26.06 in all that decides.
 *
 * The thread looks at its queue only when something wakes it: an arrival, if the queue has reached the preferred size that
 * was noted at the last look; an instance that takes or ends a batch; the end of a wait. Any other arrival waits until the
 * thread looks for another reason. Threads race in the real server. Here a woken thread looks before the next arrival, and
 * an instance that ends a batch takes the next one before the thread looks.
 */
import { NO_POLICY, PolicyQueue, type Skipped, type WaitPolicy } from "./policy-queue.ts";
import { type BatchOrders, NO_ORDERS, type Schedulable, type Scheduler } from "./scheduler.ts";

export interface BatchingRules {
  readonly instances: number;
  readonly maxBatchSize: number;
  /** Preferred batch sizes, rising. */
  readonly preferred: readonly number[];
  /** Most microseconds that a batch waits for a preferred size; 0: it does not wait. */
  readonly delayUs: number;
  /** Number of priority levels; 0: no priorities. */
  readonly levels: number;
  readonly defaultLevel: number;
  readonly policy: WaitPolicy;
  /** Policies of the levels that have their own. */
  readonly policies: ReadonlyMap<number, WaitPolicy>;
  /** True if every arrival wakes the thread, because requests of different shapes must not share a batch. */
  readonly looksAtEach?: boolean;
  /** Most batches that wait for an instance; two per instance by default. */
  readonly aheadMost?: number;
  /** True if batches wait for resources elsewhere: `orders` returns each batch at once, and it grows until `began`. */
  readonly limited?: boolean;
}

/** Triton's payload: a batch that may grow until an instance takes it. */
interface Batch<R> {
  readonly requests: R[];
  size: number;
  /** Arrival of its oldest request. */
  sinceUs: number;
  /** True if a request of another shape came after it: it is not merged. */
  sealed: boolean;
  /** True if no request may be added, because an instance has it. */
  taken: boolean;
}

/** Place in the queue up to which requests were found for the next batch, kept between looks (`PriorityQueue::Cursor`). */
interface Cursor {
  valid: boolean;
  level: number;
  at: number;
  count: number;
  size: number;
  oldestUs: number;
  /** Earliest timeout of the requests found; 0: none. */
  soonestUs: number;
  /** True if the last request found has timed out and waits on. */
  delayed: boolean;
}

const START: Cursor = {
  valid: true,
  level: 0,
  at: 0,
  count: 0,
  size: 0,
  oldestUs: Infinity,
  soonestUs: 0,
  delayed: false,
};

/**
 * What the thread waits for: `arrivals` (its queue is empty), the `delay` of a batch, a `slot` for another batch, or that an
 * instance takes the batch that the next request does not fit (`start`; the real thread spins).
 */
type Wait = "arrivals" | "delay" | "slot" | "start";

/** Batches that wait for an instance, per instance. */
const AHEAD = 2;
/** `default_wait_microseconds`: a wait for arrivals or a slot is looked at that often. */
const IDLE_US = 500_000;

export class DynamicBatcher<R extends Schedulable> implements Scheduler<R> {
  readonly #rules: BatchingRules;
  readonly #largest: number;
  /** True if batches are made while all instances are busy. Models with a queue policy or priorities do not. */
  readonly #ahead: boolean;
  readonly #elsewhere: boolean;
  /** Queues in order of priority. */
  readonly #levels: readonly PolicyQueue<R>[];
  /** Batches that wait for an instance, in order. */
  readonly #ready: Batch<R>[] = [];
  #idle: number;
  /** Requests in `#levels`. */
  #count = 0;
  #batch: Batch<R> = newBatch();
  #saturated = false;
  #cursor: Cursor = { ...START };
  /**
   * Sum of the batch sizes that arrived and were not taken. As in the real server, requests that a full queue refuses or that
   * time out during a wait for a slot stay counted.
   */
  #queuedSize = 0;
  /** Queued size from which an arrival wakes the thread. */
  #nextSize = 0;
  #wait: Wait = "arrivals";
  /** End of the wait. */
  #untilUs = Number.NEGATIVE_INFINITY;
  #woken = false;
  /** Requests that the last look sorted out. As in the real server they are answered after the wait that follows. */
  #skipped: Skipped<R> = { rejected: [], cancelled: [], size: 0 };

  constructor(rules: BatchingRules) {
    const { instances, preferred, levels, policy, policies } = rules;
    this.#rules = rules;
    this.#idle = instances;
    this.#largest = Math.max(0, ...preferred);
    this.#ahead = levels === 0 && policy.timeoutUs === 0 && !policy.mayOverride && policy.mostWaiting === 0;
    this.#elsewhere = this.#ahead && rules.limited === true;
    this.#levels = Array.from(
      { length: Math.max(1, levels) },
      (_, at) => new PolicyQueue<R>((levels > 0 ? policies.get(at + 1) : undefined) ?? policy ?? NO_POLICY),
    );
  }

  get waiting(): number {
    const { rejected, cancelled } = this.#skipped;
    const ready = this.#ready.reduce((all, { requests }) => all + requests.length, 0);
    return this.#count + ready + rejected.length + cancelled.length;
  }

  enqueue(request: R, nowUs: number): boolean {
    const { levels, defaultLevel, looksAtEach = false } = this.#rules;
    const asked = request.priority;
    const level = levels === 0 ? 0 : (asked === 0 || asked > levels ? defaultLevel : asked) - 1;
    if (this.#untilUs <= nowUs && this.#timedUs === null) this.#skipPeriods(nowUs);
    this.#queuedSize += request.batchSize;
    if (!this.#levels[level]!.enqueue(request, nowUs)) return false;
    this.#count++;
    const cursor = this.#cursor;
    if (level < cursor.level || (level === cursor.level && cursor.delayed)) cursor.valid = false;
    const wakes = looksAtEach || this.#saturated || this.#batch.taken || this.#queuedSize >= this.#nextSize;
    if (wakes && this.#hasSlot) this.#woken = true;
    return true;
  }

  freed(): void {
    this.#idle++;
    this.#woken = true;
  }

  began(batch: readonly R[]): void {
    if (!this.#elsewhere) return;
    if (this.#batch.requests === batch) this.#batch.taken = true;
    this.#woken = true;
  }

  orders(nowUs: number): BatchOrders<R> {
    if (this.#ready.length === 0 && this.#count === 0 && !this.#woken && this.#skipped.size === 0) return NO_ORDERS;
    const run: (readonly R[])[] = [];
    const answered: Skipped<R> = { rejected: [], cancelled: [], size: 0 };
    if (this.#start(nowUs, run)) this.#woken = true;
    const over = nowUs >= (this.#timedUs ?? Number.POSITIVE_INFINITY);
    const asleep = this.#wait === "slot" ? !this.#hasSlot : !this.#woken && !over && this.#wait !== "start";
    // A late timer does not shift the periods that follow.
    if (!asleep) this.#look(nowUs, over ? this.#untilUs : nowUs, run, answered);
    else if (over && this.#wait === "slot") this.#rejectOverdue(nowUs, answered);
    this.#woken = false;
    return { run, rejected: answered.rejected, cancelled: answered.cancelled, wakeUs: this.#timedUs };
  }

  /** True if another batch may be made. */
  get #hasSlot(): boolean {
    if (this.#elsewhere) return true;
    return this.#ahead ? this.#ready.length < (this.#rules.aheadMost ?? AHEAD * this.#rules.instances) : this.#idle > 0;
  }

  /** End of the wait; null if nothing can happen then. */
  get #timedUs(): number | null {
    if (this.#wait === "delay") return this.#untilUs;
    if (this.#wait === "arrivals") return this.#count > 0 ? this.#untilUs : null;
    return this.#wait === "slot" && this.#levels.some(({ mayReject }) => mayReject) ? this.#untilUs : null;
  }

  /** Moves the end of the wait past now by whole periods, after each of which the real thread wakes up for nothing. */
  #skipPeriods(nowUs: number): void {
    if (this.#untilUs === Number.NEGATIVE_INFINITY) this.#untilUs = nowUs;
    this.#untilUs += IDLE_US * (Math.floor((nowUs - this.#untilUs) / IDLE_US) + 1);
  }

  #rejectOverdue(nowUs: number, answered: Skipped<R>): void {
    for (const queue of this.#levels) this.#count -= queue.rejectOverdue(nowUs, answered);
    this.#skipPeriods(nowUs);
  }

  /** Hands ready batches to idle instances. Returns true if one was taken. */
  #start(nowUs: number, run: (readonly R[])[]): boolean {
    if (this.#elsewhere) {
      for (const { requests } of this.#ready.splice(0)) run.push(requests);
      return false;
    }
    let any = false;
    for (; this.#idle > 0 && this.#ready.length > 0; this.#idle--) {
      const batch = this.#ready.shift()!;
      batch.taken = true;
      if (!batch.sealed) this.#merge(batch, nowUs);
      run.push(batch.requests);
      any = true;
    }
    return any;
  }

  /** Adds the batches that waited longer than the delay, if they fit (`InstanceQueue::Dequeue`). */
  #merge(batch: Batch<R>, nowUs: number): void {
    const { delayUs, maxBatchSize } = this.#rules;
    if (delayUs === 0 || maxBatchSize === 1) return;
    for (let next = this.#ready[0]; next !== undefined; next = this.#ready[0]) {
      if (next.sealed || nowUs - next.sinceUs <= delayUs) return;
      // The real server also stops the growth of a batch that it then does not merge.
      next.taken = true;
      if (batch.size + next.size > maxBatchSize || batch.requests[0]!.likeness !== next.requests[0]!.likeness) return;
      batch.requests.push(...next.requests);
      batch.size += next.size;
      this.#ready.shift();
    }
  }

  /** One wake-up of the thread: makes batches until it has to wait. A wait without a time of its own begins at `fromUs`. */
  #look(nowUs: number, fromUs: number, run: (readonly R[])[], answered: Skipped<R>): void {
    let waits = false;
    while (!waits) {
      this.#answer(answered);
      if (this.#saturated || this.#batch.taken) {
        this.#batch = newBatch();
        this.#saturated = false;
        this.#nextSize = 0;
      }
      waits = true;
      if (this.#count === 0) this.#waitFor("arrivals", fromUs + IDLE_US);
      else if (!this.#hasSlot) this.#waitFor("slot", fromUs + IDLE_US);
      else waits = this.#add(nowUs, run, answered);
    }
  }

  /** Makes or enlarges one batch. Returns true if the thread has to wait. */
  #add(nowUs: number, run: (readonly R[])[], answered: Skipped<R>): boolean {
    const waitUs = this.#form(nowUs);
    if (waitUs > 0) {
      this.#waitFor("delay", nowUs + waitUs);
      return true;
    }
    // Nothing was added, the next request does not fit, and yet the batch counts as one that may grow.
    const stuck = this.#cursor.valid && !this.#saturated && this.#count > 0;
    this.#start(nowUs, run);
    if (!stuck) return false;
    this.#answer(answered);
    this.#waitFor("start", Number.POSITIVE_INFINITY);
    return true;
  }

  #waitFor(wait: Wait, untilUs: number): void {
    this.#wait = wait;
    this.#untilUs = untilUs;
  }

  #answer(answered: Skipped<R>): void {
    if (this.#skipped.size === 0) return;
    answered.rejected.push(...this.#skipped.rejected);
    answered.cancelled.push(...this.#skipped.cancelled);
    this.#skipped = { rejected: [], cancelled: [], size: 0 };
  }

  /** Adds requests to the batch. Returns the microseconds to wait instead; 0: do not wait (`GetDynamicBatch`). */
  #form(nowUs: number): number {
    const { delayUs, preferred } = this.#rules;
    const had = this.#batch.size;
    const { best, ends } = this.#gather(nowUs, had);
    const { count, size, oldestUs, soonestUs } = this.#cursor;
    const ageUs = nowUs - oldestUs;
    const late = delayUs !== 0 && ageUs >= delayUs;
    if (best > 0 && !late) return this.#take(best, delayUs === 0);
    if (count === 0) return 0;
    if (ends || had + size >= this.#largest) return this.#take(count, true);
    if (late || delayUs === 0) return this.#take(count, false);
    this.#nextSize = (preferred.find((one) => one > had + size) ?? had) - had;
    // A batch that waits for an instance and has no preferred size takes every request that it can get.
    if (had !== 0 && !preferred.includes(had)) return this.#take(count, false);
    const leftUs = delayUs - ageUs;
    return soonestUs === 0 ? leftUs : Math.min(leftUs, Math.max(1, soonestUs - nowUs + 1));
  }

  /**
   * Walks the queue from the cursor for requests that fit into the batch, of which `had` is the size. `best`: how many of
   * those found make the best preferred size; 0: none. `ends`: the next request does not fit.
   */
  #gather(nowUs: number, had: number): { best: number; ends: boolean } {
    const { preferred, maxBatchSize } = this.#rules;
    if (!this.#cursor.valid || nowUs >= this.#cursor.soonestUs) this.#cursor = { ...START };
    const cursor = this.#cursor;
    let best = 0;
    while (this.#findNext(nowUs)) {
      const queue = this.#levels[cursor.level]!;
      const { request, sinceUs, untilUs } = queue.at(cursor.at);
      const size = had + cursor.size + request.batchSize;
      const first = this.#batch.requests[0] ?? (cursor.count > 0 ? this.#firstWaiting : request);
      if (first !== request) {
        if (size > this.#largest && best === 0) {
          best = cursor.count;
          this.#saturated = true;
        }
        if (size > maxBatchSize) return { best, ends: true };
        if (request.likeness !== first.likeness) {
          this.#batch.sealed = true;
          return { best, ends: true };
        }
      }
      cursor.at++;
      cursor.count++;
      cursor.size += request.batchSize;
      cursor.oldestUs = Math.min(cursor.oldestUs, sinceUs);
      if (untilUs !== 0) cursor.soonestUs = Math.min(cursor.soonestUs || untilUs, untilUs);
      cursor.delayed = cursor.at > queue.unexpired;
      if (preferred.includes(had + cursor.size)) best = cursor.count;
    }
    return { best, ends: false };
  }

  /** Moves the cursor to the next request that may run. Returns false if there is none. */
  #findNext(nowUs: number): boolean {
    const [cursor, skipped] = [this.#cursor, this.#skipped];
    for (;;) {
      const [before, size] = [skipped.rejected.length + skipped.cancelled.length, skipped.size];
      const found = this.#levels[cursor.level]!.applyPolicy(cursor.at, nowUs, skipped);
      this.#count -= skipped.rejected.length + skipped.cancelled.length - before;
      this.#queuedSize -= skipped.size - size;
      if (found) return true;
      if (this.#count <= cursor.count) return false;
      cursor.level++;
      cursor.at = 0;
    }
  }

  /** Moves the first `count` requests into the batch. */
  #take(count: number, saturates: boolean): 0 {
    const batch = this.#batch;
    if (batch.size === 0) this.#ready.push(batch);
    for (let left = count; left > 0; left--) {
      const { request, sinceUs } = this.#levels.find(({ size }) => size > 0)!.dequeue();
      batch.requests.push(request);
      batch.size += request.batchSize;
      batch.sinceUs = Math.min(batch.sinceUs, sinceUs);
      this.#queuedSize -= request.batchSize;
    }
    this.#count -= count;
    this.#cursor.valid = false;
    this.#saturated ||= saturates;
    return 0;
  }

  get #firstWaiting(): R {
    return this.#levels.find(({ size }) => size > 0)!.at(0).request;
  }
}

const newBatch = <R>(): Batch<R> => ({
  requests: [],
  size: 0,
  sinceUs: Number.POSITIVE_INFINITY,
  sealed: false,
  taken: false,
});

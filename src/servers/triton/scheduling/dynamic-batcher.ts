/**
 * Forms batches like the thread of Triton's dynamic batcher. Sources: `dynamic_batch_scheduler.cc`, `scheduler_utils.cc`,
 * `rate_limiter.cc` and `instance_queue.cc`, which schedule alike in core r24.10 (2.51) and r26.06.
 *
 * The thread checks its queue only when an event wakes it:
 * - an arrival, if the queue has reached the preferred size noted at the last check,
 * - an instance that takes or finishes a batch,
 * - the end of a wait.
 *
 * Any other arrival waits for the next check. In the real server threads race. Here a woken thread checks before the next
 * arrival, and an instance that finishes a batch takes the next batch before the thread checks.
 */
import { NO_POLICY, PolicyQueue, SkippedRequests, type WaitPolicy } from "./policy-queue.ts";
import { type BatchOrders, NO_ORDERS, type Schedulable, type Scheduler } from "./scheduler.ts";

export interface BatchingRules {
  readonly instances: number;
  readonly maxBatchSize: number;
  /** Preferred batch sizes in ascending order. */
  readonly preferred: readonly number[];
  /** Microseconds that a batch may wait for a preferred size. 0 means no wait. */
  readonly delayUs: number;
  /** Number of priority levels. 0 means no priorities. */
  readonly levels: number;
  readonly defaultLevel: number;
  readonly policy: WaitPolicy;
  /** Policies of the levels that have their own policy. */
  readonly policies: ReadonlyMap<number, WaitPolicy>;
  /** True if every arrival wakes the thread, because requests of different shapes must not share a batch. */
  readonly looksAtEach?: boolean;
  /** Most batches that wait for an instance. The default is two per instance. */
  readonly aheadMost?: number;
  /**
   * True if a rate limiter starts the batches. `orders` then returns each batch at once, and the batch may grow until `began`.
   */
  readonly limited?: boolean;
}

/** Triton's payload: a batch that may grow until an instance takes it. */
class Batch<R> {
  readonly requests: R[] = [];
  size = 0;
  /** Arrival time of the batch's oldest request. */
  sinceUs = Number.POSITIVE_INFINITY;
  /** True if a request of another shape arrived after the batch. No later batch is merged into it. */
  sealed = false;
  /** True if an instance has the batch, so that no request may be added. */
  taken = false;
}

/** Position up to which the queue was searched for the next batch. Kept between checks, like `PriorityQueue::Cursor`. */
class Cursor {
  valid = true;
  level = 0;
  at = 0;
  count = 0;
  size = 0;
  oldestUs = Number.POSITIVE_INFINITY;
  /** Earliest timeout of the requests found. 0 means none has a timeout. */
  soonestUs = 0;
  /** True if the last request found has timed out but stays queued (DELAY). */
  delayed = false;
}

/**
 * The event for which the thread waits. `arrivals`: the queue is empty. `delay`: a batch waits for a preferred size. `slot`:
 * too many batches are ready. `start`: the next request does not fit the current batch, so an instance must take that batch
 * first; the real thread spins.
 */
type Wait = "arrivals" | "delay" | "slot" | "start";

/** Most batches that wait per instance. */
const AHEAD = 2;
/** `default_wait_microseconds`: how often the thread wakes while it waits for arrivals or a slot. */
const IDLE_US = 500_000;

export class DynamicBatcher<R extends Schedulable> implements Scheduler<R> {
  readonly #largest: number;
  /** True if batches form while all instances are busy. False for models with a queue policy or priorities. */
  readonly #ahead: boolean;
  readonly #elsewhere: boolean;
  /** Queues by priority, highest first. */
  readonly #levels: readonly PolicyQueue<R>[];
  /** Batches that wait for an instance, oldest first. */
  readonly #ready: Batch<R>[] = [];
  #idle: number;
  /** Number of requests in `#levels`. */
  #count = 0;
  #batch = new Batch<R>();
  #saturated = false;
  #cursor = new Cursor();
  /**
   * Sum of the batch sizes in the queue. As in the real server, requests stay counted if a full queue rejects them or if they
   * time out during a wait for a slot.
   */
  #queuedSize = 0;
  /** Queued size at which an arrival wakes the thread. */
  #nextSize = 0;
  #wait: Wait = "arrivals";
  /** Time at which the wait ends. */
  #untilUs = Number.NEGATIVE_INFINITY;
  #woken = false;
  /** Requests that the last check dropped. Like the real server, answers them only after the wait that follows. */
  #skipped = new SkippedRequests<R>();

  constructor(private readonly rules: BatchingRules) {
    const { instances, preferred, levels, policy, policies } = rules;
    this.#idle = instances;
    this.#largest = Math.max(0, ...preferred);
    this.#ahead = levels === 0 && policy.timeoutUs === 0 && !policy.mayOverride && policy.mostWaiting === 0;
    this.#elsewhere = this.#ahead && rules.limited === true;
    this.#levels = Array.from(
      { length: Math.max(1, levels) },
      (_, at) => new PolicyQueue<R>((levels > 0 ? policies.get(at + 1) : undefined) ?? policy ?? NO_POLICY),
    );
  }

  enqueue(request: R, nowUs: number): boolean {
    const { levels, defaultLevel, looksAtEach = false } = this.rules;
    const priority = request.priority;
    const level = levels === 0 ? 0 : (priority === 0 || priority > levels ? defaultLevel : priority) - 1;
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
    const answered = new SkippedRequests<R>();
    if (this.#start(nowUs, run)) this.#woken = true;
    const over = nowUs >= (this.#timedUs ?? Number.POSITIVE_INFINITY);
    const asleep = this.#wait === "slot" ? !this.#hasSlot : !this.#woken && !over && this.#wait !== "start";
    // Start the next period at the planned time, so that a late timer does not shift later periods.
    if (!asleep) this.#look(nowUs, over ? this.#untilUs : nowUs, run, answered);
    else if (over && this.#wait === "slot") this.#rejectOverdue(nowUs, answered);
    this.#woken = false;
    return { run, rejected: answered.rejected, cancelled: answered.cancelled, wakeUs: this.#timedUs };
  }

  /** True if another batch may be formed. */
  get #hasSlot(): boolean {
    if (this.#elsewhere) return true;
    return this.#ahead ? this.#ready.length < (this.rules.aheadMost ?? AHEAD * this.rules.instances) : this.#idle > 0;
  }

  /** Time at which the wait ends, or null if nothing can happen then. */
  get #timedUs(): number | null {
    if (this.#wait === "delay") return this.#untilUs;
    if (this.#wait === "arrivals") return this.#count > 0 ? this.#untilUs : null;
    return this.#wait === "slot" && this.#levels.some(({ mayReject }) => mayReject) ? this.#untilUs : null;
  }

  /** Moves the end of the wait past now in whole periods. At the end of each period the real thread wakes without work. */
  #skipPeriods(nowUs: number): void {
    if (this.#untilUs === Number.NEGATIVE_INFINITY) this.#untilUs = nowUs;
    this.#untilUs += IDLE_US * (Math.floor((nowUs - this.#untilUs) / IDLE_US) + 1);
  }

  #rejectOverdue(nowUs: number, answered: SkippedRequests<R>): void {
    for (const queue of this.#levels) this.#count -= queue.rejectOverdue(nowUs, answered);
    this.#skipPeriods(nowUs);
  }

  /** Hands ready batches to idle instances. Returns true if an instance took one. */
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

  /** Merges batches that waited longer than the delay, if they fit (`InstanceQueue::Dequeue`). */
  #merge(batch: Batch<R>, nowUs: number): void {
    const { delayUs, maxBatchSize } = this.rules;
    if (delayUs === 0 || maxBatchSize === 1) return;
    for (let next = this.#ready[0]; next !== undefined; next = this.#ready[0]) {
      if (next.sealed || nowUs - next.sinceUs <= delayUs) return;
      // The real server stops the growth of the next batch even if it then does not merge it.
      next.taken = true;
      if (batch.size + next.size > maxBatchSize || batch.requests[0]!.likeness !== next.requests[0]!.likeness) return;
      batch.requests.push(...next.requests);
      batch.size += next.size;
      this.#ready.shift();
    }
  }

  /** Runs the thread once: forms batches until the thread must wait. `fromUs`: start of a wait for arrivals or a slot. */
  #look(nowUs: number, fromUs: number, run: (readonly R[])[], answered: SkippedRequests<R>): void {
    let waits = false;
    while (!waits) {
      this.#answer(answered);
      if (this.#saturated || this.#batch.taken) {
        this.#batch = new Batch();
        this.#saturated = false;
        this.#nextSize = 0;
      }
      waits = true;
      if (this.#count === 0) this.#waitFor("arrivals", fromUs + IDLE_US);
      else if (!this.#hasSlot) this.#waitFor("slot", fromUs + IDLE_US);
      else waits = this.#add(nowUs, run, answered);
    }
  }

  /** Forms or enlarges one batch. Returns true if the thread has to wait. */
  #add(nowUs: number, run: (readonly R[])[], answered: SkippedRequests<R>): boolean {
    const waitUs = this.#form(nowUs);
    if (waitUs > 0) {
      this.#waitFor("delay", nowUs + waitUs);
      return true;
    }
    // No request was added because the next one does not fit, although the batch still counts as growing.
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

  #answer(answered: SkippedRequests<R>): void {
    if (this.#skipped.size === 0) return;
    answered.rejected.push(...this.#skipped.rejected);
    answered.cancelled.push(...this.#skipped.cancelled);
    this.#skipped = new SkippedRequests();
  }

  /** Adds requests to the batch (`GetDynamicBatch`). Returns 0, or the microseconds to wait if none was added. */
  #form(nowUs: number): number {
    const { delayUs, preferred } = this.rules;
    const had = this.#batch.size;
    const { best, ends } = this.#gather(nowUs, had);
    const { count, size, oldestUs, soonestUs } = this.#cursor;
    const ageUs = nowUs - oldestUs;
    const late = delayUs !== 0 && ageUs >= delayUs;
    if (best > 0 && !late) return this.#take(best, delayUs === 0);
    if (count === 0) return 0;
    if (ends || had + size >= this.#largest) return this.#take(count, true);
    if (late || delayUs === 0) return this.#take(count, false);
    this.#nextSize = (preferred.find((preferredSize) => preferredSize > had + size) ?? had) - had;
    // A batch that waits for an instance and has no preferred size takes every queued request.
    if (had !== 0 && !preferred.includes(had)) return this.#take(count, false);
    const leftUs = delayUs - ageUs;
    return soonestUs === 0 ? leftUs : Math.min(leftUs, Math.max(1, soonestUs - nowUs + 1));
  }

  /**
   * Searches the queue from the cursor for requests that fit the batch. `had`: the batch's current size. `best`: how many of
   * the requests found reach the largest preferred size, or 0. `ends`: the next request does not fit.
   */
  #gather(nowUs: number, had: number): { best: number; ends: boolean } {
    const { preferred, maxBatchSize } = this.rules;
    if (!this.#cursor.valid || nowUs >= this.#cursor.soonestUs) this.#cursor = new Cursor();
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

  /** Moves the cursor to the next request that may run. Returns false at the end of the queue. */
  #findNext(nowUs: number): boolean {
    const cursor = this.#cursor;
    const skipped = this.#skipped;
    for (;;) {
      const before = skipped.rejected.length + skipped.cancelled.length;
      const { size } = skipped;
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
      const { request, sinceUs } = this.#firstLevel.dequeue();
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
    return this.#firstLevel.at(0).request;
  }

  /** The highest level with a request. */
  get #firstLevel(): PolicyQueue<R> {
    for (const level of this.#levels) if (level.size > 0) return level;
    throw new Error("no request waits");
  }
}

/**
 * Which requests make a batch, and when does it go? `dynamic_batch_scheduler.cc` (2026): preferred sizes, delay, priorities,
 * queue policies. A model without policy and priorities has its batches made ahead, two for each instance; such a batch
 * grows until an instance takes it. Others are looked at when an instance is free.
 */
import { NO_POLICY, PolicyQueue, type Skipped, type WaitPolicy } from "./policy-queue.ts";
import { type BatchOrders, NO_ORDERS, type Schedulable, type Scheduler } from "./scheduler.ts";

export interface BatchingRules {
  readonly instances: number;
  readonly maxBatchSize: number;
  /** Rising. */
  readonly preferred: readonly number[];
  /** How long a batch may wait for a preferred size; 0: not at all. */
  readonly delayUs: number;
  /** 0: no priorities. */
  readonly levels: number;
  readonly defaultLevel: number;
  readonly policy: WaitPolicy;
  /** By level, where it is another one. */
  readonly policies: ReadonlyMap<number, WaitPolicy>;
  /** Batches made ahead at most; two per instance where it is not given. */
  readonly aheadMost?: number;
  /** Batches wait for resources elsewhere; what is made ahead goes there at once, any number, and grows there. */
  readonly limited?: boolean;
}

interface Batch<R> {
  readonly requests: R[];
  size: number;
}

/** So many batches are made ahead per instance. */
const AHEAD = 2;

export class DynamicBatcher<R extends Schedulable> implements Scheduler<R> {
  readonly #rules: BatchingRules;
  readonly #largest: number;
  readonly #ahead: boolean;
  readonly #elsewhere: boolean;
  /** In order of priority. */
  readonly #levels: readonly PolicyQueue<R>[];
  /** Wait for an instance. */
  readonly #ready: Batch<R>[] = [];
  /** The last one of those, while it may grow. */
  #open: Batch<R> | null = null;
  #idle: number;

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
    return this.#queued + this.#ready.reduce((all, { requests }) => all + requests.length, 0);
  }

  enqueue(request: R, nowUs: number): boolean {
    const { levels, defaultLevel } = this.#rules;
    const asked = request.priority;
    const level = levels === 0 ? 1 : asked === 0 || asked > levels ? defaultLevel : asked;
    return this.#levels[level - 1]!.enqueue(request, nowUs);
  }

  freed(): void {
    this.#idle++;
  }

  began(batch: readonly R[]): void {
    if (this.#open?.requests === batch) this.#open = null;
  }

  orders(nowUs: number): BatchOrders<R> {
    if (this.#ready.length === 0 && this.#queued === 0) return NO_ORDERS;
    const run: (readonly R[])[] = [];
    const skipped: Skipped<R> = { rejected: [], cancelled: [] };
    let wakeUs: number | null = null;
    for (;;) {
      this.#start(run);
      if (this.#queued === 0 || !this.#mayForm) break;
      const waitUs = this.#form(nowUs, skipped);
      if (waitUs > 0) {
        wakeUs = nowUs + waitUs;
        break;
      }
    }
    return { run, rejected: skipped.rejected, cancelled: skipped.cancelled, wakeUs };
  }

  get #queued(): number {
    let all = 0;
    for (const level of this.#levels) all += level.size;
    return all;
  }

  get #mayForm(): boolean {
    if (this.#elsewhere) return true;
    return this.#ahead ? this.#ready.length < (this.#rules.aheadMost ?? AHEAD * this.#rules.instances) : this.#idle > 0;
  }

  #start(run: (readonly R[])[]): void {
    if (this.#elsewhere) run.push(...this.#ready.splice(0).map(({ requests }) => requests));
    while (this.#idle > 0 && this.#ready.length > 0) {
      const batch = this.#ready.shift()!;
      if (batch === this.#open) this.#open = null;
      run.push(batch.requests);
      this.#idle--;
    }
  }

  /** Makes the next batch, or lets the open one grow; gives how long to wait instead, 0: not at all. */
  #form(nowUs: number, skipped: Skipped<R>): number {
    const { delayUs, preferred } = this.#rules;
    const had = this.#open?.size ?? 0;
    const found = this.#gather(nowUs, had, skipped);
    if (found.count === 0) {
      if (found.closes) this.#open = null;
      return 0;
    }
    const late = delayUs !== 0 && nowUs - found.oldestUs >= delayUs;
    if (found.best !== null && !late) this.#take(found.best, found.closes || delayUs === 0);
    else if (found.whole || had + found.size >= this.#largest) this.#take(found.count, true);
    // A batch that is ready anyway, and of no preferred size, takes whoever is there.
    else if (late || delayUs === 0 || (had !== 0 && !preferred.includes(had))) this.#take(found.count, found.closes);
    else {
      const left = delayUs - (nowUs - found.oldestUs);
      if (found.soonestUs === 0) return left;
      return Math.min(left, Math.max(1, found.soonestUs - nowUs + 1));
    }
    return 0;
  }

  /** Looks through the queue for those that can go together, `had` more being in the batch already. */
  #gather(nowUs: number, had: number, skipped: Skipped<R>) {
    const { preferred, maxBatchSize } = this.#rules;
    const found = {
      count: 0,
      size: 0,
      /** So many of them make the best preferred size. */
      best: null as number | null,
      /** The batch cannot grow any more. */
      whole: false,
      closes: false,
      oldestUs: Number.POSITIVE_INFINITY,
      soonestUs: 0,
    };
    let likeness = this.#open?.requests[0]?.likeness;
    for (const queue of this.#levels) {
      for (let at = 0; queue.applyPolicy(at, nowUs, skipped); at++) {
        const { request, sinceUs, untilUs } = queue.at(at);
        const size = had + found.size + request.batchSize;
        if (had + found.count > 0) {
          if (size > this.#largest && found.best === null && found.count > 0) {
            found.best = found.count;
            found.closes = true;
          }
          if (size > maxBatchSize || request.likeness !== likeness) {
            found.whole = true;
            found.closes = true;
            return found;
          }
        }
        likeness ??= request.likeness;
        found.count++;
        found.size += request.batchSize;
        found.oldestUs = Math.min(found.oldestUs, sinceUs);
        if (untilUs !== 0) found.soonestUs = found.soonestUs === 0 ? untilUs : Math.min(found.soonestUs, untilUs);
        if (preferred.includes(had + found.size)) found.best = found.count;
      }
    }
    return found;
  }

  #take(count: number, closes: boolean): void {
    if (this.#open === null) {
      this.#open = { requests: [], size: 0 };
      this.#ready.push(this.#open);
    }
    for (let left = count; left > 0; left--) {
      const request = this.#first.dequeue();
      this.#open.requests.push(request);
      this.#open.size += request.batchSize;
    }
    if (closes) this.#open = null;
  }

  /** The first level at which somebody waits. */
  get #first(): PolicyQueue<R> {
    for (const level of this.#levels) if (level.size > 0) return level;
    throw new Error("nobody waits");
  }
}

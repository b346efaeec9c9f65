/**
 * How does a dynamic batcher decide, said as plainly as possible? One list of who waits, walked anew each time; no cursors and
 * no queues per level. `dynamic-batcher.ts` is held against it.
 */
import type { BatchingRules } from "../../src/repository/scheduling/dynamic-batcher.ts";
import type { BatchOrders, Schedulable } from "../../src/repository/scheduling/scheduler.ts";

interface Entry<R> {
  readonly request: R;
  readonly level: number;
  readonly sinceUs: number;
  untilUs: number;
  /** Place among those whose time is over; 0: it is not. */
  delayed: number;
}

interface Batch<R> {
  readonly requests: R[];
}

const sizeOf = (requests: readonly Schedulable[]) => requests.reduce((all, { batchSize }) => all + batchSize, 0);

export class PlainBatcher<R extends Schedulable> {
  readonly #rules: BatchingRules;
  #waiting: Entry<R>[] = [];
  #ready: Batch<R>[] = [];
  #growing: Batch<R> | null = null;
  #idle: number;
  #delays = 0;

  constructor(rules: BatchingRules) {
    this.#rules = rules;
    this.#idle = rules.instances;
  }

  get waiting(): number {
    return this.#waiting.length + this.#ready.flatMap(({ requests }) => requests).length;
  }

  enqueue(request: R, nowUs: number): boolean {
    const { levels, defaultLevel } = this.#rules;
    const inRange = request.priority >= 1 && request.priority <= levels;
    const level = levels === 0 ? 1 : inRange ? request.priority : defaultLevel;
    const policy = this.#policy(level);
    const others = this.#waiting.filter((one) => one.level === level).length;
    if (policy.mostWaiting > 0 && others >= policy.mostWaiting) return false;
    const limits = [policy.timeoutUs, policy.mayOverride ? request.timeoutUs : 0].filter((limit) => limit > 0);
    const limit = policy.timeoutUs === 0 ? 0 : Math.min(...limits);
    this.#waiting.push({ request, level, sinceUs: nowUs, untilUs: limit > 0 ? nowUs + limit : 0, delayed: 0 });
    return true;
  }

  freed(): void {
    this.#idle++;
  }

  orders(nowUs: number): BatchOrders<R> {
    const made = { run: [] as R[][], rejected: [] as R[], cancelled: [] as R[], wakeUs: null as number | null };
    for (;;) {
      while (this.#idle > 0 && this.#ready.length > 0) {
        const batch = this.#ready.shift()!;
        if (batch === this.#growing) this.#growing = null;
        made.run.push(batch.requests);
        this.#idle--;
      }
      if (this.#waiting.length === 0 || !this.#mayForm()) return made;
      const waitUs = this.#form(nowUs, made);
      if (waitUs > 0) return { ...made, wakeUs: nowUs + waitUs };
    }
  }

  #policy(level: number) {
    return (this.#rules.levels > 0 ? this.#rules.policies.get(level) : undefined) ?? this.#rules.policy;
  }

  #mayForm(): boolean {
    const { levels, policy, instances, aheadMost = 2 * instances } = this.#rules;
    const limited = levels > 0 || policy.timeoutUs > 0 || policy.mayOverride || policy.mostWaiting > 0;
    return limited ? this.#idle > 0 : this.#ready.length < aheadMost;
  }

  /** Who is next, one after the other; who is walked over and must not run is taken out. */
  *#walk(nowUs: number, out: { rejected: R[]; cancelled: R[] }): Generator<Entry<R>> {
    const levels = [...new Set(this.#waiting.map(({ level }) => level))].sort((a, b) => a - b);
    for (const level of levels) {
      const ofLevel = this.#waiting.filter((one) => one.level === level);
      for (const [at, one] of ofLevel.filter(({ delayed }) => delayed === 0).entries()) {
        const over = one.untilUs !== 0 && nowUs > one.untilUs;
        if (one.request.cancelled && at > 0) out.cancelled.push(this.#remove(one));
        else if (over && this.#policy(level).action === "DELAY")
          Object.assign(one, { delayed: ++this.#delays, untilUs: 0 });
        else if (over) out.rejected.push(this.#remove(one));
        else yield one;
      }
      const late = this.#waiting.filter((one) => one.level === level && one.delayed > 0);
      yield* late.sort((a, b) => a.delayed - b.delayed);
    }
  }

  #remove(entry: Entry<R>): R {
    this.#waiting = this.#waiting.filter((one) => one !== entry);
    return entry.request;
  }

  #form(nowUs: number, out: { rejected: R[]; cancelled: R[] }): number {
    const { maxBatchSize, preferred, delayUs } = this.#rules;
    const largest = Math.max(0, ...preferred);
    const already = this.#growing?.requests ?? [];
    const taken: Entry<R>[] = [];
    let stopped = false;
    let tooLarge = false;
    let best = 0;
    for (const one of this.#walk(nowUs, out)) {
      const together = [...already, ...taken.map(({ request }) => request)];
      const size = sizeOf(together) + one.request.batchSize;
      if (together.length > 0) {
        if (size > largest && best === 0 && taken.length > 0) {
          best = taken.length;
          tooLarge = true;
        }
        if (size > maxBatchSize || one.request.likeness !== together[0]!.likeness) {
          stopped = true;
          break;
        }
      }
      taken.push(one);
      if (preferred.includes(size)) best = taken.length;
    }
    const closes = stopped || tooLarge;
    if (taken.length === 0) {
      if (closes) this.#growing = null;
      return 0;
    }
    const ageUs = nowUs - Math.min(...taken.map(({ sinceUs }) => sinceUs));
    const late = delayUs > 0 && ageUs >= delayUs;
    const whole = sizeOf(already) + sizeOf(taken.map(({ request }) => request));
    if (best > 0 && !late) this.#move(taken.slice(0, best), closes || delayUs === 0);
    else if (stopped || whole >= largest) this.#move(taken, true);
    else if (late || delayUs === 0) this.#move(taken, closes);
    else if (already.length > 0 && !preferred.includes(sizeOf(already))) this.#move(taken, closes);
    else {
      const ends = taken.map(({ untilUs }) => untilUs).filter((until) => until > 0);
      return Math.min(delayUs - ageUs, ...ends.map((until) => Math.max(1, until - nowUs + 1)));
    }
    return 0;
  }

  #move(entries: readonly Entry<R>[], closes: boolean): void {
    if (this.#growing === null) {
      this.#growing = { requests: [] };
      this.#ready.push(this.#growing);
    }
    this.#growing.requests.push(...entries.map((one) => this.#remove(one)));
    if (closes) this.#growing = null;
  }
}

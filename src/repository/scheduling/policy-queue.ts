/** Who waits at one level of priority, and for how long at most? `PriorityQueue::PolicyQueue` of `scheduler_utils.cc` (2026). */
import type { Schedulable } from "./scheduler.ts";

export interface WaitPolicy {
  /** What becomes of a request whose time is over: it is answered so, or waits behind those whose time is not. */
  readonly action: "REJECT" | "DELAY";
  /** 0: no limit. */
  readonly timeoutUs: number;
  /** A request may ask for less, where there is a limit. */
  readonly mayOverride: boolean;
  /** 0: no limit. */
  readonly mostWaiting: number;
}

export const NO_POLICY: WaitPolicy = { action: "REJECT", timeoutUs: 0, mayOverride: false, mostWaiting: 0 };

export interface Waiting<R> {
  readonly request: R;
  readonly sinceUs: number;
  /** When its time is over; 0: never. */
  readonly untilUs: number;
}

/** Takes those that are no longer to be run. */
export interface Skipped<R> {
  readonly rejected: R[];
  readonly cancelled: R[];
}

/** No batcher wakes up sooner: whoever waits no longer is not reached in time (a timeout of 1 was rejected by a 2.51 at rest). */
const WAKE_US = 10;

export class PolicyQueue<R extends Schedulable> {
  readonly #policy: WaitPolicy;
  readonly #queue: Waiting<R>[] = [];
  /** Their time is over, and they wait on. */
  readonly #delayed: Waiting<R>[] = [];

  constructor(policy: WaitPolicy) {
    this.#policy = policy;
  }

  get size(): number {
    return this.#queue.length + this.#delayed.length;
  }

  enqueue(request: R, nowUs: number): boolean {
    const { mostWaiting, timeoutUs, mayOverride } = this.#policy;
    if (mostWaiting !== 0 && this.size >= mostWaiting) return false;
    const shorter = mayOverride && request.timeoutUs !== 0 && request.timeoutUs < timeoutUs;
    const limit = shorter ? request.timeoutUs : timeoutUs;
    const untilUs = limit < WAKE_US ? nowUs - 1 : nowUs + limit;
    this.#queue.push({ request, sinceUs: nowUs, untilUs: limit === 0 ? 0 : untilUs });
    return true;
  }

  /** Sorts out at place `at` whom nobody waits for and whose time is over; is there somebody then? */
  applyPolicy(at: number, nowUs: number, skipped: Skipped<R>): boolean {
    let end = at;
    for (; end < this.#queue.length; end++) {
      const one = this.#queue[end]!;
      // The first was picked when it came; nobody looks again (recorded of 2.51).
      if (one.request.cancelled && end > 0) skipped.cancelled.push(one.request);
      else if (!isOver(one, nowUs)) break;
      else if (this.#policy.action === "DELAY") this.#delayed.push({ ...one, untilUs: 0 });
      else skipped.rejected.push(one.request);
    }
    if (end > at) this.#queue.splice(at, end - at);
    return at < this.size;
  }

  at(place: number): Waiting<R> {
    return this.#queue[place] ?? this.#delayed[place - this.#queue.length]!;
  }

  dequeue(): R {
    return (this.#queue.shift() ?? this.#delayed.shift()!).request;
  }
}

const isOver = ({ untilUs }: Waiting<unknown>, nowUs: number) => untilUs !== 0 && nowUs > untilUs;

/** The requests that wait at one priority level, under its queue policy: `PriorityQueue::PolicyQueue` of `scheduler_utils.cc` (core r24.10 to r26.06). */
import type { Schedulable } from "./scheduler.ts";

export interface WaitPolicy {
  /** Effect of a timeout: the request is answered with an error, or waits after the requests that have time left. */
  readonly action: "REJECT" | "DELAY";
  /** Microseconds; 0: no limit. */
  readonly timeoutUs: number;
  /** True if a request may ask for a shorter timeout. Without a `timeoutUs` it may not. */
  readonly mayOverride: boolean;
  /** Most requests that wait; 0: no limit. */
  readonly mostWaiting: number;
}

export const NO_POLICY: WaitPolicy = { action: "REJECT", timeoutUs: 0, mayOverride: false, mostWaiting: 0 };

export interface Waiting<R> {
  readonly request: R;
  readonly sinceUs: number;
  /** Time of the timeout; 0: none. */
  readonly untilUs: number;
}

/** Requests that left a queue and will not run. */
export interface Skipped<R> {
  readonly rejected: R[];
  readonly cancelled: R[];
  /** Sum of their batch sizes. */
  size: number;
}

/** Shorter timeouts end before the batcher looks, so they reject: a 2.51 at rest rejected a timeout of 1 µs. */
const WAKE_US = 10;

export class PolicyQueue<R extends Schedulable> {
  readonly #policy: WaitPolicy;
  readonly #queue: Waiting<R>[] = [];
  /** Requests that wait on after their timeout (DELAY). */
  readonly #delayed: Waiting<R>[] = [];

  constructor(policy: WaitPolicy) {
    this.#policy = policy;
  }

  get size(): number {
    return this.#queue.length + this.#delayed.length;
  }

  /** Number of requests whose timeout has not been noticed. */
  get unexpired(): number {
    return this.#queue.length;
  }

  /** True if a waiting request may be rejected by its timeout. */
  get mayReject(): boolean {
    return this.#policy.action === "REJECT" && this.#policy.timeoutUs > 0 && this.#queue.length > 0;
  }

  /** Returns false if the queue is full. */
  enqueue(request: R, nowUs: number): boolean {
    const { mostWaiting, timeoutUs, mayOverride } = this.#policy;
    if (mostWaiting !== 0 && this.size >= mostWaiting) return false;
    const shorter = mayOverride && request.timeoutUs !== 0 && request.timeoutUs < timeoutUs;
    const limit = shorter ? request.timeoutUs : timeoutUs;
    const untilUs = limit < WAKE_US ? nowUs - 1 : nowUs + limit;
    this.#queue.push({ request, sinceUs: nowUs, untilUs: limit === 0 ? 0 : untilUs });
    return true;
  }

  /** Moves cancelled and timed-out requests away from place `at`. Returns true if a request stands there then. */
  applyPolicy(at: number, nowUs: number, skipped: Skipped<R>): boolean {
    let end = at;
    for (; end < this.#queue.length; end++) {
      const entry = this.#queue[end]!;
      if (entry.request.cancelled) skip(entry.request, skipped.cancelled, skipped);
      else if (!isOver(entry, nowUs)) break;
      else if (this.#policy.action === "DELAY") this.#delayed.push({ ...entry, untilUs: 0 });
      else skip(entry.request, skipped.rejected, skipped);
    }
    if (end > at) this.#queue.splice(at, end - at);
    return at < this.size;
  }

  /** Rejects every request whose timeout is over, cancelled or not. Returns their number. */
  rejectOverdue(nowUs: number, skipped: Skipped<R>): number {
    if (!this.mayReject) return 0;
    let kept = 0;
    for (const entry of this.#queue) {
      if (isOver(entry, nowUs)) skip(entry.request, skipped.rejected, skipped);
      else this.#queue[kept++] = entry;
    }
    const rejected = this.#queue.length - kept;
    this.#queue.length = kept;
    return rejected;
  }

  at(place: number): Waiting<R> {
    return this.#queue[place] ?? this.#delayed[place - this.#queue.length]!;
  }

  dequeue(): Waiting<R> {
    return this.#queue.shift() ?? this.#delayed.shift()!;
  }
}

const isOver = ({ untilUs }: Waiting<unknown>, nowUs: number) => untilUs !== 0 && nowUs > untilUs;

function skip<R extends Schedulable>(request: R, list: R[], skipped: Skipped<R>): void {
  list.push(request);
  skipped.size += request.batchSize;
}

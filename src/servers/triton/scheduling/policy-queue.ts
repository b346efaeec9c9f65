/**
 * Queues the requests of one priority level under its queue policy. Source: `PriorityQueue::PolicyQueue` in
 * `scheduler_utils.cc` (core r24.10 to r26.06).
 */
import type { Schedulable } from "./scheduler.ts";

export interface WaitPolicy {
  /** Effect of a timeout. REJECT answers the request with an error. DELAY moves it behind the requests that have time left. */
  readonly action: "REJECT" | "DELAY";
  /** Timeout in microseconds. 0 means no limit. */
  readonly timeoutUs: number;
  /** True if a request may set a shorter timeout. Has no effect without `timeoutUs`. */
  readonly mayOverride: boolean;
  /** Most queued requests. 0 means no limit. */
  readonly mostWaiting: number;
}

export const NO_POLICY: WaitPolicy = { action: "REJECT", timeoutUs: 0, mayOverride: false, mostWaiting: 0 };

export interface QueuedRequest<R> {
  readonly request: R;
  readonly sinceUs: number;
  /** Time of the timeout, or 0 without a timeout. */
  readonly untilUs: number;
}

/** Requests that left a queue without running. */
export class SkippedRequests<R> {
  readonly rejected: R[] = [];
  readonly cancelled: R[] = [];
  /** Sum of the batch sizes of both lists. */
  size = 0;
}

/**
 * A shorter timeout has expired before the batcher checks, so that the request is rejected. An idle 2.51 rejected a timeout of
 * 1 µs.
 */
const WAKE_US = 10;

export class PolicyQueue<R extends Schedulable> {
  readonly #queue: QueuedRequest<R>[] = [];
  /** Requests that stay queued after their timeout (DELAY). */
  readonly #delayed: QueuedRequest<R>[] = [];

  constructor(private readonly policy: WaitPolicy) {}

  get size(): number {
    return this.#queue.length + this.#delayed.length;
  }

  /** Number of requests whose timeout has not been noticed yet. */
  get unexpired(): number {
    return this.#queue.length;
  }

  /** True if a queued request may be rejected at its timeout. */
  get mayReject(): boolean {
    return this.policy.action === "REJECT" && this.policy.timeoutUs > 0 && this.#queue.length > 0;
  }

  /** Adds a request. Returns false if the queue is full. */
  enqueue(request: R, nowUs: number): boolean {
    const { mostWaiting, timeoutUs, mayOverride } = this.policy;
    if (mostWaiting !== 0 && this.size >= mostWaiting) return false;
    const shorter = mayOverride && request.timeoutUs !== 0 && request.timeoutUs < timeoutUs;
    const limit = shorter ? request.timeoutUs : timeoutUs;
    const untilUs = limit < WAKE_US ? nowUs - 1 : nowUs + limit;
    this.#queue.push({ request, sinceUs: nowUs, untilUs: limit === 0 ? 0 : untilUs });
    return true;
  }

  /**
   * Removes or delays cancelled and timed-out requests from position `at` on. Returns true if a request is at that position
   * afterwards.
   */
  applyPolicy(at: number, nowUs: number, skipped: SkippedRequests<R>): boolean {
    let end = at;
    for (; end < this.#queue.length; end++) {
      const entry = this.#queue[end]!;
      if (entry.request.cancelled) skip(entry.request, skipped.cancelled, skipped);
      else if (!isOver(entry, nowUs)) break;
      else if (this.policy.action === "DELAY") this.#delayed.push({ ...entry, untilUs: 0 });
      else skip(entry.request, skipped.rejected, skipped);
    }
    if (end > at) this.#queue.splice(at, end - at);
    return at < this.size;
  }

  /** Rejects every request whose timeout has passed, also cancelled requests. Returns their number. */
  rejectOverdue(nowUs: number, skipped: SkippedRequests<R>): number {
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

  at(place: number): QueuedRequest<R> {
    return this.#queue[place] ?? this.#delayed[place - this.#queue.length]!;
  }

  dequeue(): QueuedRequest<R> {
    return this.#queue.shift() ?? this.#delayed.shift()!;
  }
}

const isOver = ({ untilUs }: QueuedRequest<unknown>, nowUs: number) => untilUs !== 0 && nowUs > untilUs;

function skip<R extends Schedulable>(request: R, list: R[], skipped: SkippedRequests<R>): void {
  list.push(request);
  skipped.size += request.batchSize;
}

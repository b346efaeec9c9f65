/**
 * Leads requests into the engine's queue: limits its length, and keeps the order of arrival. vLLM's `--max-num-queued-reqs` and
 * `--max-num-queued-tokens` count requests in the engine, waiting or running, and tokens of prompts that have given no output
 * yet. Without limits they cost nothing.
 */
import type { LiveValue } from "../../../base/live-value.ts";
import { logUnexpected } from "../../../base/unexpected.ts";
import type { Finish, Receiver, Submission, TimelineFacts } from "../../../engine/interface/types.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { QueueLimits } from "../../../kernel/live-settings.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { engineBusy, prefillBacklog } from "../request/errors.ts";
import { ReceiverBefore } from "./receiver-before.ts";

export class Queue {
  readonly #limits: LiveValue<QueueLimits>;
  readonly #backend: Backend;
  readonly #accounting: Accounting;
  /** The order in which requests came, which they keep while their prompts are encoded. */
  readonly arrivals = new ArrivalOrder();
  #backlog = 0;
  /** Generations of requests that came in, and tokens of their prompts, which the engine has not got yet. */
  #comingCount = 0;
  #comingTokens = 0;

  constructor(limits: LiveValue<QueueLimits>, backend: Backend, accounting: Accounting) {
    this.#accounting = accounting;
    this.#limits = limits;
    this.#backend = backend;
  }

  /** The refusal of a request of `count` generations; null: it may come in. */
  refuses(count: number): ErrorAnswer | null {
    const { maxNumQueuedReqs, maxNumQueuedTokens } = this.#limits.get();
    if (maxNumQueuedReqs !== undefined && this.#inFlight + count > maxNumQueuedReqs) {
      this.#accounting.rejected?.("requests");
      return engineBusy;
    }
    if (maxNumQueuedTokens === undefined || this.#backlog + this.#comingTokens < maxNumQueuedTokens) return null;
    this.#accounting.rejected?.("tokens");
    return prefillBacklog;
  }

  get #inFlight(): number {
    return (this.#backend.inFlight?.() ?? 0) + this.#comingCount;
  }

  /** So many generations more, or fewer, with so many tokens of prompts, are of a request that came in and wait to be submitted. */
  coming(count: number, tokens: number): void {
    this.#comingCount += count;
    this.#comingTokens += tokens;
  }

  /** Gives a prompt of so many tokens to the engine by `submit`, and has it counted until its first output or its end. */
  submit<R>(tokens: number, receiver: Receiver, submit: (receiver: Receiver) => Submission | R): Submission | R {
    if (this.#limits.get().maxNumQueuedTokens === undefined) return submit(receiver);
    const waiting = new Waiting(receiver, () => {
      this.#backlog -= tokens;
    });
    this.#backlog += tokens;
    const taken = submit(waiting);
    if (!isSubmission(taken)) {
      waiting.over();
      return taken;
    }
    waiting.submission = taken;
    return waiting;
  }
}

function isSubmission<R>(taken: Submission | R): taken is Submission {
  return typeof taken === "object" && taken !== null && "cancel" in taken;
}

/** Between the engine and a choice, in both directions. */
class Waiting extends ReceiverBefore implements Submission {
  submission!: Submission;
  #left: (() => void) | null;

  constructor(receiver: Receiver, left: () => void) {
    super(receiver);
    this.#left = left;
  }

  over(): void {
    this.#left?.();
    this.#left = null;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    this.over();
    this.next.onTokens(ids, at, count, finish, stopTokenId);
  }

  override broken(): void {
    this.over();
    super.broken();
  }

  cancel(): void {
    this.over();
    this.submission.cancel();
  }

  finish(reason: Finish, tokens: number): void {
    this.over();
    this.submission.finish(reason, tokens);
  }

  release(): void {
    this.submission.release();
  }

  get cachedTokens(): number {
    return this.submission.cachedTokens;
  }

  get scheduledUs(): number {
    return this.submission.scheduledUs ?? 0;
  }

  get timeline(): TimelineFacts | null {
    return this.submission.timeline ?? null;
  }
}

const NOBODY = Promise.resolve();

/**
 * Has requests reach the engine as they arrived, although prompts are encoded elsewhere and token-id prompts need no encoding
 * at all.
 */
export class ArrivalOrder {
  #last: Promise<unknown> = NOBODY;
  #waiting = 0;

  /** True if no earlier request waits. */
  get clear(): boolean {
    return this.#waiting === 0;
  }

  /**
   * Resolves with the value of `ready`, or null if it rejects, once it and all earlier calls have settled. The code that awaits it
   * runs before that of later calls, up to its own next await.
   */
  pass<T>(ready: Promise<T>): Promise<T | null> {
    this.#waiting++;
    const passed = Promise.allSettled([ready, this.#last]).then(([settled]) => {
      // Kept until the next one came, it would keep what it gives: all prompts of a request.
      if (--this.#waiting === 0) this.#last = NOBODY;
      if (settled.status === "fulfilled") return settled.value;
      logUnexpected("a request failed and is answered with 500", settled.reason);
      return null;
    });
    this.#last = passed;
    return passed;
  }
}

/**
 * Limits the engine's queue, and submits requests in the order of their arrival. vLLM's `--max-num-queued-reqs` counts requests
 * in the engine, waiting or running. Its `--max-num-queued-tokens` counts tokens of prompts without any output yet. Unset
 * limits cost nothing.
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
  /** Keeps the order of arrival although prompts take different times to encode. */
  readonly arrivals = new ArrivalOrder();
  /** Tokens of prompts in the engine that have no output yet. */
  #backlog = 0;
  /** Generations of admitted requests that are not submitted yet, and tokens of their prompts. */
  #comingCount = 0;
  #comingTokens = 0;

  constructor(
    private readonly limits: LiveValue<QueueLimits>,
    private readonly backend: Backend,
    private readonly accounting: Accounting,
  ) {}

  /** Returns the refusal of a request with `count` generations, and counts it. Returns null if there is room. */
  refuses(count: number): ErrorAnswer | null {
    const { maxNumQueuedReqs, maxNumQueuedTokens } = this.limits.get();
    if (maxNumQueuedReqs !== undefined && this.#inFlight + count > maxNumQueuedReqs) {
      this.accounting.rejected?.("requests");
      return engineBusy;
    }
    if (maxNumQueuedTokens === undefined || this.#backlog + this.#comingTokens < maxNumQueuedTokens) return null;
    this.accounting.rejected?.("tokens");
    return prefillBacklog;
  }

  get #inFlight(): number {
    return (this.backend.inFlight?.() ?? 0) + this.#comingCount;
  }

  /** Adds generations of an admitted request, and their prompt tokens. Once they are submitted, call it with negative numbers. */
  coming(count: number, tokens: number): void {
    this.#comingCount += count;
    this.#comingTokens += tokens;
  }

  /**
   * Calls `submit` for a prompt of `tokens` tokens, and counts them until its first output or its end. If the engine refuses it,
   * returns the result of `submit`.
   */
  submit<R>(tokens: number, receiver: Receiver, submit: (receiver: Receiver) => Submission | R): Submission | R {
    if (this.limits.get().maxNumQueuedTokens === undefined) return submit(receiver);
    const counted = new CountedPrompt(receiver, () => {
      this.#backlog -= tokens;
    });
    this.#backlog += tokens;
    const result = submit(counted);
    if (!isSubmission(result)) {
      counted.over();
      return result;
    }
    counted.submission = result;
    return counted;
  }
}

function isSubmission<R>(result: Submission | R): result is Submission {
  return typeof result === "object" && result !== null && "cancel" in result;
}

/** Stands between the engine and a choice. Passes all calls on, and notices the first output and the end. */
class CountedPrompt extends ReceiverBefore implements Submission {
  submission!: Submission;
  #onOver: (() => void) | null;

  constructor(receiver: Receiver, onOver: () => void) {
    super(receiver);
    this.#onOver = onOver;
  }

  /** Stops counting the tokens of the prompt. Later calls do nothing. */
  over(): void {
    this.#onOver?.();
    this.#onOver = null;
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

const SETTLED = Promise.resolve();

/**
 * Lets requests reach the engine in the order of their arrival, although another thread encodes some prompts, and prompts of
 * token ids need no encoding.
 */
export class ArrivalOrder {
  #last: Promise<unknown> = SETTLED;
  #waiting = 0;

  /** True if no earlier request waits. */
  get clear(): boolean {
    return this.#waiting === 0;
  }

  /**
   * Resolves with the value of `ready`, or null if it rejects, once it and all earlier calls have settled. A caller's
   * code after its await runs before that of later callers, up to its next await.
   */
  pass<T>(ready: Promise<T>): Promise<T | null> {
    this.#waiting++;
    const passed = Promise.allSettled([ready, this.#last]).then(([settled]) => {
      // Drop the promise, or it keeps the prompts in memory until the next request.
      if (--this.#waiting === 0) this.#last = SETTLED;
      if (settled.status === "fulfilled") return settled.value;
      logUnexpected("a request failed and is answered with 500", settled.reason);
      return null;
    });
    this.#last = passed;
    return passed;
  }
}

/** State of one generation in an engine, from submission to its end. */
import { FEED, FEED_HALF, NONE, Reason, SLOTS } from "../../assembly/layout.ts";
import type { Batch } from "./batch.ts";
import type { CoreRequest } from "./core-request.ts";
import type { Lane, LaneEnd, Lanes } from "./interface/lanes.ts";
import type { RequestMeter } from "./interface/request-meter.ts";
import { type Choices, Finish, type Receiver, type Submission, type TokenSource } from "./interface/types.ts";
import type { RequestTimeline } from "./observer.ts";

/** The engine as a live request sees it: can end or unblock it. */
export interface LiveOwner {
  readonly lanes: Lanes | null;
  end(live: LiveRequest, reason: Finish, tokens: number, how?: Reason): void;
  unblock(live: LiveRequest): void;
}

export class LiveRequest implements Submission {
  handle: number = NONE;
  ended = false;
  tokens = 0;
  #fed = FEED;
  cachedTokens = 0;
  scheduledUs = 0;
  readonly endsOnly: boolean;
  /** True if a client may see the times of its tokens. */
  readonly isSeen: boolean;
  /** Number of its LoRA adapter, and whether its first output has been reported to vLLM's front end. */
  readonly adapter: number;
  heard = false;
  /** null if no observer watches the engine. */
  timeline: RequestTimeline | null = null;
  /** null if requests are not metered. */
  meter: RequestMeter | null = null;
  #lane: Lane | null = null;

  constructor(
    readonly engine: LiveOwner,
    /** null once the request is in the core's queue. */
    public request: CoreRequest | null,
    readonly receiver: Receiver,
    readonly script: TokenSource | undefined,
    /** Set if the generation is one of several choices of a prompt. */
    readonly choices: Choices | undefined,
  ) {
    this.adapter = request?.adapter ?? 0;
    this.endsOnly = receiver.endsOnly === true && script === undefined;
    this.isSeen = receiver.gathers !== true || script !== undefined;
  }

  lane(receiver: Receiver, line: LaneEnd, prefix: Uint8Array, suffix: Uint8Array): Lane | null {
    const { lanes } = this.engine;
    // A receiver in between, or a script, needs each token.
    if (lanes === null || receiver !== this.receiver || this.script !== undefined || this.ended) return null;
    this.#lane = lanes.lane(this.handle % SLOTS, line, prefix, suffix);
    return this.#lane;
  }

  settle(): void {
    const lane = this.#lane;
    if (lane === null || lane.tokens === 0) return;
    const { tokens, bytes } = lane;
    this.tokens += tokens;
    this.timeline?.wentOn(lane.next);
    lane.clear();
    this.receiver.went!(tokens, bytes);
  }

  /** Ends the use of the lane, because no more tokens come. */
  leave(): void {
    this.settle();
    this.#lane?.close();
    this.#lane = null;
  }

  cancel(): void {
    this.settle();
    this.engine.end(this, Finish.Abort, this.tokens);
  }

  finish(reason: Finish, tokens: number): void {
    this.engine.end(this, reason, tokens);
  }

  reject(tokens: number): void {
    this.engine.end(this, Finish.Error, tokens, Reason.Rejected);
  }

  /** Counts an end with `tokens` tokens that vLLM counts. The last choice of a prompt reports all choices. */
  counted(batch: Batch, tokens: number): void {
    const { choices } = this;
    if (choices === undefined) return;
    choices.longest = Math.max(choices.longest, tokens);
    choices.left--;
    if (choices.left === 0) batch.observeChoices(choices.count, choices.longest);
  }

  /** Reports the end of the generation to the meter, if there is one. */
  passed(finish: Finish, outputTokens: number, dueUs: number, handedUs: number, nowUs: number): void {
    this.meter?.ended(finish, outputTokens, dueUs, handedUs, nowUs);
    this.meter = null;
  }

  /** Ends a held request for which the core had no room when its time came. `ids`: the outbox, from which it gets nothing. */
  unplaced(ids: Int32Array, dueUs: number, nowUs: number): void {
    this.ended = true;
    this.timeline?.recorder.ended(this.timeline, Finish.Error, 0, dueUs);
    this.receiver.onTokens(ids, 0, 0, Finish.Error, NONE);
    this.passed(Finish.Error, 0, dueUs, dueUs, nowUs);
  }

  /** Returns the next ids that the core asked for, or none at the script's end. */
  moreOfScript(): Uint32Array {
    const next = this.script!.subarray(this.#fed, this.#fed + FEED_HALF);
    this.#fed += next.length;
    return next;
  }

  release(): void {
    this.engine.unblock(this);
  }
}

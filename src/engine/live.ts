/** What does an engine remember of one generation, from submission to its end? */
import { FEED, FEED_HALF, NONE, Reason, SLOTS } from "../../assembly/layout.ts";
import type { Batch } from "./batch.ts";
import type { CoreRequest } from "./core-request.ts";
import type { Lane, LaneEnd, Lanes } from "./interface/lanes.ts";
import type { RequestMeter } from "./interface/request-meter.ts";
import { type Choices, Finish, type Receiver, type Submission, type TokenSource } from "./interface/types.ts";
import type { RequestTimeline } from "./observer.ts";

/** What ends a generation, or lets it go on: its engine. */
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
  /** Somebody may see when a token comes. */
  readonly isSeen: boolean;
  /** Number of its LoRA adapter, and whether a front end like vLLM's has heard of it by now. */
  readonly adapter: number;
  heard = false;
  /** While somebody observes the engine. */
  timeline: RequestTimeline | null = null;
  /** While somebody counts what passes. */
  meter: RequestMeter | null = null;
  #lane: Lane | null = null;

  constructor(
    readonly engine: LiveOwner,
    /** Until it is in the core's queue. */
    public request: CoreRequest | null,
    readonly receiver: Receiver,
    readonly script: TokenSource | undefined,
    /** Where it is one of several of a prompt. */
    readonly choices: Choices | undefined,
  ) {
    this.adapter = request?.adapter ?? 0;
    this.endsOnly = receiver.endsOnly === true && script === undefined;
    this.isSeen = receiver.gathers !== true || script !== undefined;
  }

  lane(receiver: Receiver, line: LaneEnd, prefix: Uint8Array, suffix: Uint8Array): Lane | null {
    const { lanes } = this.engine;
    // Who stands between, or plays a script, hears of each token.
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

  /** No token comes any more. */
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

  /**
   * Counts an end with `tokens` tokens, in a way that vLLM counts; the last of a prompt's choices has all of them
   * observed.
   */
  counted(batch: Batch, tokens: number): void {
    const { choices } = this;
    if (choices === undefined) return;
    choices.longest = Math.max(choices.longest, tokens);
    choices.left--;
    if (choices.left === 0) batch.observeChoices(choices.count, choices.longest);
  }

  /** Tells the meter, where there is one, that the generation ended. */
  passed(finish: Finish, outputTokens: number, dueUs: number, handedUs: number, nowUs: number): void {
    this.meter?.ended(finish, outputTokens, dueUs, handedUs, nowUs);
    this.meter = null;
  }

  /**
   * Ends a request that was held back, and for which the core had no room when its time came. `ids`: the outbox, of which
   * it gets nothing.
   */
  unplaced(ids: Int32Array, dueUs: number, nowUs: number): void {
    this.ended = true;
    this.timeline?.recorder.ended(this.timeline, Finish.Error, 0, dueUs);
    this.receiver.onTokens(ids, 0, 0, Finish.Error, NONE);
    this.passed(Finish.Error, 0, dueUs, dueUs, nowUs);
  }

  /** The next ids that the core asked for; none at the script's end. */
  moreOfScript(): Uint32Array {
    const next = this.script!.subarray(this.#fed, this.#fed + FEED_HALF);
    this.#fed += next.length;
    return next;
  }

  release(): void {
    this.engine.unblock(this);
  }
}

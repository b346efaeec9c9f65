/** One request to an embedded engine, from its submission to its end, as the caller sees it. */

import type { Clock } from "../base/clock.ts";
import type { Finish, Receiver, Submission } from "../engine/interface/types.ts";

/** One request to the engine. Only the prompt is required, as `promptTokens` or `promptIds`. */
export interface RunRequest {
  /** Arrival time in microseconds of the engine's clock. Default, and for times that have passed: now. */
  readonly at?: number;
  /** Length in tokens of a prompt with unique content, which never hits the prefix cache. */
  readonly promptTokens?: number;
  /** Token ids of the prompt. Prompts with equal prefixes share blocks of the prefix cache. */
  readonly promptIds?: ArrayLike<number>;
  /**
   * Number of output tokens, limited by the context. Only `stopTokenIds` and `script` end the answer earlier. Default: drawn
   * from the seed, by the engine's option `outputTokens`.
   */
  readonly maxTokens?: number;
  /** Output tokens before which the answer does not end by itself. Default: 0. */
  readonly minTokens?: number;
  /** True if the answer continues to `maxTokens`, or to the end of the context. Default: false. */
  readonly ignoreEos?: boolean;
  /** At most 8,192 token ids that end the answer, in addition to the end of sequence. */
  readonly stopTokenIds?: readonly number[];
  /** Token ids of the answer. It ends after them with reason "stop", or at `maxTokens`. */
  readonly script?: ArrayLike<number>;
  /** Seed of 32 bits. The same seed gives the same answer under any load. Default: the next one derived from the engine's `seed`. */
  readonly seed?: number;
  /** Priority with `schedulingPolicy: "priority"`; smaller values run first. Default: 0. */
  readonly priority?: number;
  /** Equal prompts with different salts share no blocks. */
  readonly cacheSalt?: string;
  /** True if the request does not use cached prompt blocks. Default: false. */
  readonly skipReadingPrefixCache?: boolean;
  /** Number of the LoRA adapter, 1 to 4095; needs `enableLora`. 0: no adapter. Requests of different adapters share no blocks. */
  readonly adapter?: number;
  /** True if the request is not admitted before `release`, like one whose grammar is being compiled. Default: false. */
  readonly blocked?: boolean;
}

/** Reasons of vLLM 0.33 (`v1/engine/__init__.py`), by their numbers. */
const FINISH_REASONS = ["stop", "length", "abort", "error", "repetition"] as const;
/** Why a run ended: an end of sequence, its limit, `cancel` or `close`, an error, a repeated pattern. */
export type FinishReason = (typeof FINISH_REASONS)[number];

/** `tooLong`: longer than `maxModelLen`; `busy`: no slot or no room for block hashes; `closed`: by `close`. */
export type RefusalReason = "tooLong" | "busy" | "closed";

/** Receives the tokens of a run. */
export interface RunListener {
  /** Called in each step that generated tokens, and at the end. `ids`: the new tokens. Not called after `cancel`. */
  onTokens?(ids: readonly number[], run: Run): void;
}

/** A submitted request. Times are microseconds on the engine's clock. */
export interface Run {
  /** Number of prompt tokens. */
  readonly promptTokens: number;
  /** Maximum output tokens, limited by the context. */
  readonly maxTokens: number;
  /** Ids of the output tokens so far. */
  readonly tokens: readonly number[];
  /** Time of each output token. */
  readonly tokenTimesUs: readonly number[];
  /** Number of prompt tokens from the prefix cache. Valid after the first token. */
  readonly cachedTokens: number;
  /** Time of arrival: `at`, or the time of `submit`. */
  readonly arrivalUs: number;
  /** Time of the first token; null before. */
  readonly firstTokenUs: number | null;
  /** Time of the end; null before, and if the request was refused. */
  readonly endUs: number | null;
  /** Reason of the end; null before, and if the request was refused. */
  readonly finish: FinishReason | null;
  /** Reason why the engine refused the request; null if it did not. */
  readonly refused: RefusalReason | null;
  /** Resolves with the run after its end or refusal. With a virtual clock, the caller must advance the time meanwhile. */
  readonly done: Promise<Run>;
  /** Cancels the request like a client that disconnects. Its slot and blocks are free within one step. No effect after the end. */
  cancel(): void;
  /** Unblocks a blocked request. It keeps its place in the queue, and the next step may admit it. No effect on others. */
  release(): void;
}

/** The engine's side of a run. */
export class LiveRun implements Run, Receiver {
  readonly tokens: number[] = [];
  readonly tokenTimesUs: number[] = [];
  endUs: number | null = null;
  finish: FinishReason | null = null;
  refused: RefusalReason | null = null;
  readonly #clock: Clock;
  readonly #listener: RunListener;
  #submission: Submission | null = null;
  #released = false;
  #done: Promise<Run> | null = null;
  #settle: (run: Run) => void = () => {};

  constructor(
    clock: Clock,
    listener: RunListener,
    readonly promptTokens: number,
    readonly maxTokens: number,
    readonly arrivalUs: number,
  ) {
    this.#clock = clock;
    this.#listener = listener;
  }

  get firstTokenUs(): number | null {
    return this.tokenTimesUs[0] ?? null;
  }

  get cachedTokens(): number {
    return this.#submission?.cachedTokens ?? 0;
  }

  get done(): Promise<Run> {
    this.#done ??= new Promise((settle) => {
      if (this.ended) settle(this);
      else this.#settle = settle;
    });
    return this.#done;
  }

  cancel(): void {
    if (this.ended) return;
    this.#submission?.cancel();
    this.#end("abort");
  }

  release(): void {
    this.#released = true;
    if (!this.ended) this.#submission?.release();
  }

  /** Notes that the engine accepted the request. Passes on a `release` that came before its arrival time. */
  take(submission: Submission): void {
    this.#submission = submission;
    if (this.#released) submission.release();
  }

  refuse(reason: RefusalReason): void {
    this.refused = reason;
    this.#settle(this);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null): void {
    const now = this.#clock.now();
    const before = this.tokens.length;
    for (let i = at; i < at + count; i++) {
      this.tokens.push(ids[i]!);
      this.tokenTimesUs.push(now);
    }
    if (finish !== null) this.#end(FINISH_REASONS[finish]);
    this.#listener.onTokens?.(this.tokens.slice(before), this);
  }

  get ended(): boolean {
    return this.finish !== null || this.refused !== null;
  }

  #end(reason: FinishReason): void {
    this.finish = reason;
    this.endUs = this.#clock.now();
    this.#settle(this);
  }
}

/** What does a caller see of one request, from submission to its end? */

import type { Clock } from "../base/clock.ts";
import type { Finish, Receiver, Submission } from "../engine/interface/types.ts";

/** One request to the engine. `promptTokens` or `promptIds` says what the prompt is; everything else has a default. */
export interface RunRequest {
  /** When it comes, in microseconds on the engine's clock; now, when that has passed. */
  readonly at?: number;
  /** Length of a prompt whose content is its own: it finds nothing in the prefix cache. */
  readonly promptTokens?: number;
  /** Token ids of the prompt; equal beginnings share blocks of the prefix cache. */
  readonly promptIds?: ArrayLike<number>;
  /**
   * Output tokens, cut to what the context leaves: only `stopTokenIds` and `script` end it before. Without it the length is
   * drawn from the seed, by `outputTokens` of the engine.
   */
  readonly maxTokens?: number;
  /** No end of sequence before so many output tokens; 0. */
  readonly minTokens?: number;
  /** The answer runs to `maxTokens`, or to the end of the context; false. */
  readonly ignoreEos?: boolean;
  /** The answer ends with any of these ids, besides the end of sequence. */
  readonly stopTokenIds?: readonly number[];
  /** The answer's ids when they are known beforehand; it then ends with reason "stop", or at `maxTokens`. */
  readonly script?: ArrayLike<number>;
  /** 32 bits: same seed, same answer and length under any load. Without it the next one that follows from the engine's `seed`. */
  readonly seed?: number;
  /** Smaller runs first under `schedulingPolicy: "priority"`; 0. */
  readonly priority?: number;
  /** Equal prompts with different salts share no blocks. */
  readonly cacheSalt?: string;
  /** Prompt blocks are not looked up in the prefix cache; false. */
  readonly skipReadingPrefixCache?: boolean;
  /** Number of its LoRA adapter, from 1 to 4095, where `enableLora` is on; 0 is none. Adapters share no blocks. */
  readonly adapter?: number;
  /** Not admitted before `release`, as a request whose grammar is still being compiled; others pass it. False. */
  readonly blocked?: boolean;
}

/** Reasons of vLLM 0.33 (`v1/engine/__init__.py`), by their numbers. */
const FINISH_REASONS = ["stop", "length", "abort", "error", "repetition"] as const;
/** Why a run ended: an end of sequence, its limit, `cancel` or `close`, an error, a repeated pattern. */
export type FinishReason = (typeof FINISH_REASONS)[number];

/** `tooLong`: longer than `maxModelLen`; `busy`: no slot or no room for block hashes; `closed`: by `close`. */
export type RefusalReason = "tooLong" | "busy" | "closed";

/** Who hears of a run's tokens. */
export interface RunListener {
  /** Called in each step that gave tokens, and at the end; `ids` are the new ones. Not called after `cancel`. */
  onTokens?(ids: readonly number[], run: Run): void;
}

/** A submitted request. Times are microseconds on the engine's clock. */
export interface Run {
  /** Length of the prompt. */
  readonly promptTokens: number;
  /** After the cut to what the context leaves. */
  readonly maxTokens: number;
  /** Output so far. */
  readonly tokens: readonly number[];
  /** When each of them came. */
  readonly tokenTimesUs: readonly number[];
  /** Prompt tokens found in the prefix cache; known once the first token came. */
  readonly cachedTokens: number;
  /** When it came: `at`, or when it was submitted. */
  readonly arrivalUs: number;
  /** When its first token came; null before. */
  readonly firstTokenUs: number | null;
  /** When it ended; null before, and when it was refused. */
  readonly endUs: number | null;
  /** Null while it waits or runs, and when it was refused. */
  readonly finish: FinishReason | null;
  /** Why the engine did not take it; null when it did. */
  readonly refused: RefusalReason | null;
  /** Resolves with the run when it ended or was refused. On a virtual clock somebody has to move the time meanwhile. */
  readonly done: Promise<Run>;
  /** The client left: slot and blocks are free within one step. Nothing happens after the end. */
  cancel(): void;
  /** A blocked request may be admitted from the next plan on, at its old place in the queue. Else nothing happens. */
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

  /** The engine has it; before its time has come it may have been released already. */
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

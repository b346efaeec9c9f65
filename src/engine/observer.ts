/**
 * What does somebody who watches an engine learn? Every step and every generation, once each, as facts; nothing of this
 * exists while nobody watches. Per token the watched engine compares and adds two numbers (`RequestTimeline.took`): tokens are
 * kept as runs of consecutive steps, and their times follow from the step rows.
 */

import type { FactsRecorder } from "./facts-recorder.ts";
import type { Choices, Finish, Receiver, TimelineFacts } from "./interface/types.ts";
import type { Cause } from "./lateness/causes.ts";

/** Runs and preemptions that one generation may hold; more are counted, not kept. */
export const RUNS_MAX = 4096;
export const PREEMPTIONS_MAX = 1024;

/** Into how many parts the writing of a step is divided. */
export const WRITTEN_PARTS = 8;

/** What is known of a step that ended. Of one that was open when the engine stopped `dueUs`, `startUs` and `endUs` are NaN. */
export interface StepFacts {
  /** From 1. */
  readonly step: number;
  /** When it was planned, and its end: when its tokens were due. */
  readonly plannedUs: number;
  readonly dueUs: number;
  /** From when till when they were written. */
  readonly startUs: number;
  readonly endUs: number;
  /** When an eighth of them was written, two eighths … seven; empty where they are few or no time passed. */
  readonly partsUs: Float64Array;
  readonly tokens: number;
  /** By its planning. */
  readonly preemptions: number;
  /** By how much engine time was moved on before it. */
  readonly rebasedUs: number;
  /** Why it began late, as far as it did. */
  readonly cause: Cause;
  /** First step that a generation which is alive, or not reported yet, names; Infinity if none does. Looks at all slots. */
  readonly oldestStep: () => number;
}

/** Times in microseconds of the engine's clock. Called on the loop's thread, between two steps' writes. */
export interface Observer {
  /** A step ended and its rows were handed out, in order of steps. The facts are the caller's again afterwards. */
  step(facts: StepFacts): void;
  /** A generation ended, one turn of the event loop after its end: what the front had to write is written. */
  request(timeline: RequestTimeline): void;
  /** The engine came to rest: a good moment to write down what is buffered. */
  idle(): void;
}

/** Both are told everything. */
export function bothObservers(one: Observer, other: Observer): Observer {
  return {
    step: (facts) => {
      one.step(facts);
      other.step(facts);
    },
    request: (timeline) => {
      one.request(timeline);
      other.request(timeline);
    },
    idle: () => {
      one.idle();
      other.idle();
    },
  };
}

/** When one generation passed which point, and what it met there. `NaN`: it never came so far. */
export class RequestTimeline implements TimelineFacts {
  queuedUs = Number.NaN;
  /** First admission to a batch, and prompt tokens found in the prefix cache then. */
  scheduledUs = Number.NaN;
  cachedTokens = 0;
  /** Due time of the first token's step. */
  prefillEndUs = Number.NaN;
  endUs = Number.NaN;
  /** When its first and its last token had been given to the receiver; of one that was cut off no last one. */
  firstWrittenUs = Number.NaN;
  lastWrittenUs = Number.NaN;
  /** Late steps of the engine while it gave tokens, the sum of their lateness; by how much engine time was moved on in its life. */
  lateSteps = 0;
  lateUs = 0;
  rebasedUs = 0;
  /** Null: the engine was stopped before it ended. */
  reason: Finish | null = null;
  /** As counted at the end; a stop string cuts it below the tokens of the runs. */
  outputTokens = 0;
  /** All preemptions, and (time, time of re-admission, cached tokens then) of those that are kept. */
  preemptions = 0;
  readonly preempted: number[] = [];
  /** Tokens that re-admissions found not cached: computed once more. */
  recomputedTokens = 0;
  /** Closed runs (first step, steps, tokens per step), and those that were not kept. */
  readonly runs: number[] = [];
  runsDropped = 0;
  handle = -1;
  /** The open run: its first step, the step that would continue it, tokens per step. */
  #from = 0;
  #next = 0;
  #width = 0;
  /** What had been late when its first token came, and when it arrived. */
  #stepsBefore = Number.NaN;
  #lateBeforeUs = 0;
  readonly #rebasedBeforeUs: number;

  constructor(
    readonly recorder: FactsRecorder,
    readonly id: string,
    /** Order of submission to this engine, from 0. */
    readonly order: number,
    readonly arrivalUs: number,
    readonly promptTokens: number,
    readonly receiver: Receiver,
    /** Shared with the others of its prompt, where there are some. */
    readonly choices?: Choices,
    /** `/v1/responses` asked for it. */
    readonly ofResponses: boolean = false,
  ) {
    this.#rebasedBeforeUs = recorder.rebasedUs;
  }

  /** `step` gave `count` tokens. */
  took(step: number, count: number): void {
    if (step === this.#next && count === this.#width) this.#next = step + 1;
    else this.#open(step, count);
  }

  /** Each step before `next` gave a token, since the one that was told last. */
  wentOn(next: number): void {
    this.#next = next;
  }

  queued(handle: number, nowUs: number): void {
    this.handle = handle;
    this.queuedUs = nowUs;
  }

  get bytes(): number {
    return this.receiver.bytes ?? 0;
  }

  /** Number of the first step that gave it a token; Infinity before that. */
  get firstStep(): number {
    return this.runs[0] ?? (this.#width > 0 ? this.#from : Number.POSITIVE_INFINITY);
  }

  get stepDueUs(): number {
    return this.recorder.dueUs;
  }

  #open(step: number, count: number): void {
    if (this.#next === 0) {
      const { recorder } = this;
      this.prefillEndUs = recorder.dueUs;
      this.#stepsBefore = recorder.lateSteps - (recorder.stepLateUs > 0 ? 1 : 0);
      this.#lateBeforeUs = recorder.lateUs - recorder.stepLateUs;
    }
    this.closeRun();
    this.#from = step;
    this.#next = step + 1;
    this.#width = count;
  }

  /** Not in a batch yet, or since it was preempted. */
  get waits(): boolean {
    const { preempted } = this;
    return Number.isNaN(preempted.length > 0 ? preempted[preempted.length - 2]! : this.scheduledUs);
  }

  /** Sums up, at the generation's end, which lateness fell into its life. */
  settleLate(): void {
    const { recorder } = this;
    this.rebasedUs = recorder.rebasedUs - this.#rebasedBeforeUs;
    if (Number.isNaN(this.#stepsBefore)) return;
    this.lateSteps = recorder.lateSteps - this.#stepsBefore;
    this.lateUs = recorder.lateUs - this.#lateBeforeUs;
  }

  /** The open run joins the others. */
  closeRun(): void {
    if (this.#width === 0) return;
    if (this.runs.length < 3 * RUNS_MAX && this.recorder.keep()) {
      this.runs.push(this.#from, this.#next - this.#from, this.#width);
    } else this.runsDropped++;
    this.#width = 0;
  }
}

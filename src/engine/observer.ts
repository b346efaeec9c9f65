/**
 * Interface of the observers of an engine: every step and every generation, once each, as facts. Costs nothing without
 * an observer. Per token, an observed engine compares and adds two numbers (`RequestTimeline.took`): tokens are stored
 * as runs of consecutive steps, and their times follow from the steps' rows.
 */

import type { FactsRecorder } from "./facts-recorder.ts";
import type { Choices, Finish, Receiver, TimelineFacts } from "./interface/types.ts";
import type { Cause } from "./lateness/causes.ts";

/** Largest number of runs and preemptions in one generation. Further ones are only counted. */
export const RUNS_MAX = 4096;
export const PREEMPTIONS_MAX = 1024;

/** Number of parts into which the writing of a step is divided. */
export const WRITTEN_PARTS = 8;

/** Facts of a step that ended. If it was open when the engine stopped, `dueUs`, `startUs` and `endUs` are NaN. */
export interface StepFacts {
  /** Counted from 1. */
  readonly step: number;
  /** Time of the plan, and end of the step, when its tokens were due. */
  readonly plannedUs: number;
  readonly dueUs: number;
  /** Start and end of writing its tokens. */
  readonly startUs: number;
  readonly endUs: number;
  /** Times at which one eighth, two eighths … seven eighths of the tokens were written. Empty for few tokens, or if no time passed. */
  readonly partsUs: Float64Array;
  readonly tokens: number;
  /** Preemptions by its plan. */
  readonly preemptions: number;
  /** Time by which engine time was moved forward before it. */
  readonly rebasedUs: number;
  /** Cause of its late start, if it was late. */
  readonly cause: Cause;
  /** Returns the first step that a live or unreported generation refers to, or Infinity. Scans all slots. */
  readonly oldestStep: () => number;
}

/** Times are microseconds of the engine's clock. Called on the event loop's thread, between the writes of two steps. */
export interface Observer {
  /** Called after a step's rows are delivered, in the order of steps. The facts object is reused. */
  step(facts: StepFacts): void;
  /** Called one turn of the event loop after a generation's end, when the front end has written the answer. */
  request(timeline: RequestTimeline): void;
  /** Called when the engine becomes idle, a good moment to write buffered data. */
  idle(): void;
}

/** Returns an observer that calls both. */
export function bothObservers(first: Observer, second: Observer): Observer {
  return {
    step: (facts) => {
      first.step(facts);
      second.step(facts);
    },
    request: (timeline) => {
      first.request(timeline);
      second.request(timeline);
    },
    idle: () => {
      first.idle();
      second.idle();
    },
  };
}

/** Times and events of one generation. `NaN`: the event has not happened. */
export class RequestTimeline implements TimelineFacts {
  queuedUs = Number.NaN;
  /** Time of the first admission, and prompt tokens found in the prefix cache then. */
  scheduledUs = Number.NaN;
  cachedTokens = 0;
  /** Due time of the first token's step. */
  prefillEndUs = Number.NaN;
  endUs = Number.NaN;
  /** Times at which the receiver had the first and the last token. There is no last one if the generation was cut off. */
  firstWrittenUs = Number.NaN;
  lastWrittenUs = Number.NaN;
  /** Late steps between its first and last token, and their total lateness; time by which engine time was moved forward during its life. */
  lateSteps = 0;
  lateUs = 0;
  rebasedUs = 0;
  /** null: the engine was stopped before the end. */
  reason: Finish | null = null;
  /** Tokens as counted at the end. A stop string can make this smaller than the tokens of the runs. */
  outputTokens = 0;
  /** Number of all preemptions; then time, time of re-admission and cached tokens of each preemption that is kept. */
  preemptions = 0;
  readonly preempted: number[] = [];
  /** Tokens that were not cached at a re-admission and were computed again. */
  recomputedTokens = 0;
  /** Closed runs (first step, number of steps, tokens per step), and number of runs that were not kept. */
  readonly runs: number[] = [];
  runsDropped = 0;
  handle = -1;
  /** The open run: its first step, the step that would continue it, tokens per step. */
  #from = 0;
  #next = 0;
  #width = 0;
  /** Lateness counters before the first token, and time moved forward before the arrival. */
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
    /** Data that all generations of the same prompt share. Absent: the prompt has only this generation. */
    readonly choices?: Choices,
    /** True if the request came from `/v1/responses`. */
    readonly ofResponses: boolean = false,
  ) {
    this.#rebasedBeforeUs = recorder.rebasedUs;
  }

  /** Records that `step` gave `count` tokens. */
  took(step: number, count: number): void {
    if (step === this.#next && count === this.#width) this.#next = step + 1;
    else this.#open(step, count);
  }

  /** Records that each step before `next`, since the last recorded one, gave a token. */
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

  /** Number of the first step that gave it a token. Infinity before that. */
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

  /** True if it is not in a batch: not yet, or not since its last preemption. */
  get waits(): boolean {
    const { preempted } = this;
    return Number.isNaN(preempted.length > 0 ? preempted[preempted.length - 2]! : this.scheduledUs);
  }

  /** Computes, at the generation's end, the lateness during its life. */
  settleLate(): void {
    const { recorder } = this;
    this.rebasedUs = recorder.rebasedUs - this.#rebasedBeforeUs;
    if (Number.isNaN(this.#stepsBefore)) return;
    this.lateSteps = recorder.lateSteps - this.#stepsBefore;
    this.lateUs = recorder.lateUs - this.#lateBeforeUs;
  }

  /** Adds the open run to the closed ones. */
  closeRun(): void {
    if (this.#width === 0) return;
    if (this.runs.length < 3 * RUNS_MAX && this.recorder.keep()) {
      this.runs.push(this.#from, this.#next - this.#from, this.#width);
    } else this.runsDropped++;
    this.#width = 0;
  }
}

/** Records the facts of one engine for its observer, from calls of the engine and loop and from the core's plans. */
import { Field, SLOTS, Word } from "../../assembly/layout.ts";
import { TrtWord } from "../../assembly/trtllm/layout.ts";
import type { Clock } from "../base/clock.ts";
import type { CoreRequest } from "./core-request.ts";
import { Finish, type Generation, type Receiver } from "./interface/types.ts";
import type { EndingStep, LoopObserver } from "./lateness/loop-observer.ts";
import { type Observer, PREEMPTIONS_MAX, RequestTimeline, type StepFacts, WRITTEN_PARTS } from "./observer.ts";
import type { Core } from "./wasm/core.ts";

/** Largest number of runs and preemptions in all live generations together. Further ones are only counted. */
const KEPT_MAX = 1 << 20;
/** Steps with at least this many tokens are divided into parts. */
const DIVIDED_TOKENS = 64;
const NO_PARTS = new Float64Array();

export class FactsRecorder implements LoopObserver {
  /** Due time of the step whose rows are being delivered. */
  dueUs = 0;
  /** Late steps so far and their total lateness; lateness of the current step; time by which engine time was moved forward. */
  lateSteps = 0;
  lateUs = 0;
  stepLateUs = 0;
  rebasedUs = 0;
  /** Facts of the current step. The object is reused. */
  readonly #facts: { -readonly [Name in keyof StepFacts]: StepFacts[Name] } = {
    ...{ step: 0, plannedUs: 0, dueUs: 0, startUs: 0, endUs: 0, partsUs: NO_PARTS },
    ...{ tokens: 0, preemptions: 0, rebasedUs: 0, cause: 0, oldestStep: () => this.#oldestStep() },
  };
  readonly #partsUs = new Float64Array(WRITTEN_PARTS - 1);
  #parts = 0;
  /** Open steps, oldest first: time of the plan and number of preemptions. */
  readonly #planned: number[] = [];
  /** Preemptions by a reset of the prefix cache, which count for the next planned step. */
  #resetPreemptions = 0;
  #keptCount = 0;
  /** Generations that have ended and are not reported yet. */
  #ended: RequestTimeline[] = [];
  #turning = false;
  /** Words of TensorRT-LLM's core. null for vLLM's. */
  readonly #trtWords: Int32Array | null;

  constructor(
    readonly core: Core,
    readonly clock: Clock,
    readonly observer: Observer,
    readonly trailAt: (slot: number) => RequestTimeline | undefined,
  ) {
    const { memory, trtWordsAt } = core.exports;
    this.#trtWords = trtWordsAt ? new Int32Array(memory.buffer, trtWordsAt(), TrtWord.Count) : null;
  }

  submitted(
    { id, choices, ofResponses }: Generation,
    { order, arrivalUs, promptTokens }: CoreRequest,
    receiver: Receiver,
  ): RequestTimeline {
    const name = id ?? `${order}`;
    return new RequestTimeline(this, name, order, arrivalUs, promptTokens, receiver, choices, ofResponses);
  }

  /** Returns true if another run or preemption may be kept, and counts it. */
  keep(): boolean {
    if (this.#keptCount >= KEPT_MAX) return false;
    this.#keptCount++;
    return true;
  }

  /** Records the admissions and preemptions of a plan at `nowUs`. */
  planned(nowUs: number): void {
    const { views } = this.core;
    const { i32 } = views;
    const preempted = this.preempted(nowUs);
    this.#planned.push(nowUs, preempted + this.#resetPreemptions);
    this.#resetPreemptions = 0;
    const handles = (views.word(Word.RowHandleAt) >>> 0) >> 2;
    const tokens = (views.word(Word.RowTokensAt) >>> 0) >> 2;
    const rows = views.word(Word.PlanRows);
    if (this.#trtWords !== null) {
      this.#contexts(this.#trtWords, handles, rows - views.word(Word.PlanDecodes), nowUs);
      return;
    }
    for (let row = views.word(Word.PlanAdmitted); row < rows; row++) {
      const handle = i32[handles + row]!;
      const timeline = this.#find(handle);
      const slot = handle % SLOTS;
      if (timeline) this.#admitted(timeline, slot, views.field(Field.Computed, slot) - i32[tokens + row]!, nowUs);
    }
  }

  /** Finds admissions in TensorRT-LLM's plans, which do not list them: a context that waits is admitted. Contexts are the first rows. */
  #contexts(trtWords: Int32Array, handles: number, count: number, nowUs: number): void {
    const { i32 } = this.core.views;
    const starts = (trtWords[TrtWord.ContextStartAt]! >>> 0) >> 2;
    for (let row = 0; row < count; row++) {
      const handle = i32[handles + row]!;
      const timeline = this.#find(handle);
      if (timeline?.waits) this.#admitted(timeline, handle % SLOTS, i32[starts + row]!, nowUs);
    }
  }

  /** `cached`: tokens that were in the cache at this admission. */
  #admitted(timeline: RequestTimeline, slot: number, cached: number, nowUs: number): void {
    const { views } = this.core;
    if (timeline.preemptions === 0) {
      timeline.scheduledUs = nowUs;
      timeline.cachedTokens = views.cachedPrompt[slot]! - 1;
      return;
    }
    timeline.recomputedTokens += views.field(Field.Prompt, slot) + views.field(Field.Outputs, slot) - cached;
    const { preempted } = timeline;
    if (preempted.length === 3 * timeline.preemptions) {
      preempted[preempted.length - 2] = nowUs;
      preempted[preempted.length - 1] = cached;
    }
  }

  /** Records the core's list of preempted requests. Returns their number. */
  preempted(nowUs: number): number {
    const { views } = this.core;
    const count = views.word(Word.PlanPreempted);
    const handles = (views.word(Word.PreemptedAt) >>> 0) >> 2;
    for (let i = 0; i < count; i++) {
      const timeline = this.#find(views.i32[handles + i]!);
      if (!timeline) continue;
      const isComplete = timeline.preempted.length === 3 * timeline.preemptions;
      timeline.preemptions++;
      if (isComplete && timeline.preemptions <= PREEMPTIONS_MAX && this.keep()) {
        timeline.preempted.push(nowUs, Number.NaN, Number.NaN);
      }
    }
    return count;
  }

  /** Records a forced reset of the prefix cache between two steps. */
  reset(): void {
    this.#resetPreemptions += this.preempted(this.clock.now());
  }

  /** Starts a step. Lateness below the threshold counts as 0. */
  started({ dueUs, startUs, rebasedUs, isLate, cause }: EndingStep): void {
    const lateUs = isLate ? startUs - dueUs : 0;
    this.stepLateUs = lateUs;
    this.#facts.rebasedUs = rebasedUs;
    this.#facts.cause = cause;
    if (lateUs > 0) this.lateSteps++;
    this.lateUs += lateUs;
    this.rebasedUs += rebasedUs;
  }

  /** Starts the delivery of the next step's rows. Returns the step's number. */
  begin(dueUs: number): number {
    this.#report();
    this.dueUs = dueUs;
    this.#parts = 0;
    this.#facts.tokens = this.core.views.word(Word.OutTokens);
    return ++this.#facts.step;
  }

  /** Number of delivered tokens after which `part` must be called next. */
  get nextPart(): number {
    const { tokens } = this.#facts;
    if (tokens < DIVIDED_TOKENS || this.#parts === WRITTEN_PARTS - 1) return Number.POSITIVE_INFINITY;
    return (tokens * (this.#parts + 1)) / WRITTEN_PARTS;
  }

  /** Records the time at which `nextPart` tokens were written. Returns the new `nextPart`. */
  part(): number {
    this.#partsUs[this.#parts++] = this.clock.now();
    return this.nextPart;
  }

  delivered({ dueUs, startUs, endUs }: EndingStep): void {
    const facts = this.#facts;
    facts.plannedUs = this.#planned.shift()!;
    facts.preemptions = this.#planned.shift()!;
    facts.dueUs = dueUs;
    facts.startUs = startUs;
    facts.endUs = endUs;
    facts.partsUs = this.#parts > 0 && endUs > startUs ? this.#partsUs.fill(endUs, this.#parts) : NO_PARTS;
    this.observer.step(facts);
  }

  /** Records a row of a generation that another receiver has just ended: computed and counted, but not received. */
  unheard(slot: number, count: number, reason: Finish | null): void {
    const timeline = this.#ended.find(({ handle }) => handle % SLOTS === slot);
    if (!timeline) return;
    timeline.took(this.#facts.step, count);
    if (reason !== null) {
      timeline.reason = reason;
      timeline.outputTokens += count;
      timeline.endUs = this.dueUs;
    }
  }

  /** Records an end by the front end, at the boundary up to which the core's times count. A generation that was cut off ends now. */
  closed(timeline: RequestTimeline, reason: Finish, tokens: number, boundaryUs: number): void {
    this.ended(timeline, reason, tokens, cutOff(reason) ? this.clock.now() : boundaryUs);
  }

  ended(timeline: RequestTimeline, reason: Finish, tokens: number, nowUs: number): void {
    timeline.reason = reason;
    timeline.outputTokens = tokens;
    timeline.endUs = nowUs;
    timeline.settleLate();
    this.#ended.push(timeline);
    this.#turn();
  }

  /** Records that the receiver has its first or last token. */
  handed(timeline: RequestTimeline): void {
    const nowUs = this.clock.now();
    if (Number.isNaN(timeline.firstWrittenUs)) timeline.firstWrittenUs = nowUs;
    if (timeline.reason !== null && !cutOff(timeline.reason)) timeline.lastWrittenUs = nowUs;
  }

  rested(): void {
    this.#turn();
  }

  /** Stops recording: reports open steps and live generations in their current state. */
  stop(alive: Iterable<{ readonly timeline: RequestTimeline | null } | undefined>): void {
    for (const live of alive) {
      if (!live?.timeline) continue;
      live.timeline.settleLate();
      this.#ended.push(live.timeline);
    }
    this.#report();
    const facts = this.#facts;
    Object.assign(facts, { tokens: 0, rebasedUs: 0, cause: 0, partsUs: NO_PARTS });
    facts.dueUs = facts.startUs = facts.endUs = Number.NaN;
    for (let [at, planned] = [0, this.#planned]; at < planned.length; at += 2) {
      facts.step++;
      facts.plannedUs = planned[at]!;
      facts.preemptions = planned[at + 1]!;
      this.observer.step(facts);
    }
    this.#planned.length = 0;
    this.observer.idle();
  }

  #oldestStep(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const timeline of this.#ended) first = Math.min(first, timeline.firstStep);
    for (let slot = 0; slot < SLOTS; slot++) first = Math.min(first, this.trailAt(slot)?.firstStep ?? first);
    return first;
  }

  /** Returns the timeline of a handle, even if the front end has ended the request since the last update. */
  #find(handle: number): RequestTimeline | undefined {
    return this.trailAt(handle % SLOTS) ?? this.#ended.find((timeline) => timeline.handle === handle);
  }

  #turn(): void {
    if (this.#turning) return;
    this.#turning = true;
    this.clock.turn(this.#reportAtTurn);
  }

  readonly #reportAtTurn = (): void => {
    this.#turning = false;
    this.#report();
    if (this.#planned.length === 0) this.observer.idle();
  };

  #report(): void {
    if (this.#ended.length === 0) return;
    const ended = this.#ended;
    this.#ended = [];
    for (const timeline of ended) {
      timeline.closeRun();
      this.#keptCount -= timeline.runs.length / 3 + timeline.preempted.length / 3;
      this.observer.request(timeline);
    }
  }
}

function cutOff(reason: Finish): boolean {
  return reason === Finish.Abort || reason === Finish.Error;
}

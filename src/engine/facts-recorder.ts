/** Gathers the facts of one engine from the calls of engine and loop, and from the plan's lists in the core. */
import { Field, SLOTS, Word } from "../../assembly/layout.ts";
import { TrtWord } from "../../assembly/trtllm/layout.ts";
import type { Clock } from "../base/clock.ts";
import type { CoreRequest } from "./core-request.ts";
import { Finish, type Generation, type Receiver } from "./interface/types.ts";
import type { EndingStep, LoopObserver } from "./lateness/loop-observer.ts";
import { type Observer, PREEMPTIONS_MAX, RequestTimeline, type StepFacts, WRITTEN_PARTS } from "./observer.ts";
import type { Core } from "./wasm/core.ts";

/** Runs and preemptions that all generations which are alive may hold together; more are counted, not kept. */
const HELD_MAX = 1 << 20;
/** A step of so many tokens is divided into parts. */
const DIVIDED_TOKENS = 64;
const NO_PARTS = new Float64Array();

export class FactsRecorder implements LoopObserver {
  /** Due time of the step whose rows are being handed out. */
  dueUs = 0;
  /** Late steps so far and the sum of their lateness; that of the step at hand; by how much engine time was moved on. */
  lateSteps = 0;
  lateUs = 0;
  stepLateUs = 0;
  rebasedUs = 0;
  /** Facts of the step at hand; one object for all. */
  readonly #facts: { -readonly [Name in keyof StepFacts]: StepFacts[Name] } = {
    ...{ step: 0, plannedUs: 0, dueUs: 0, startUs: 0, endUs: 0, partsUs: NO_PARTS },
    ...{ tokens: 0, preemptions: 0, rebasedUs: 0, cause: 0, oldestStep: () => this.#oldestStep() },
  };
  readonly #partsUs = new Float64Array(WRITTEN_PARTS - 1);
  #parts = 0;
  /** Open steps, oldest first: when each was planned, and its preemptions. */
  readonly #planned: number[] = [];
  /** Preemptions by a reset of the prefix cache: they go to the next step planned. */
  #between = 0;
  #held = 0;
  /** Ended, and not yet told. */
  #ended: RequestTimeline[] = [];
  #turning = false;
  /** Words of TensorRT-LLM's core; null: vLLM's. */
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

  /** May one more run or preemption be kept? */
  keep(): boolean {
    if (this.#held >= HELD_MAX) return false;
    this.#held++;
    return true;
  }

  /** The loop planned a step at `nowUs`: who was admitted, who lost its blocks? */
  planned(nowUs: number): void {
    const { views } = this.core;
    const { i32 } = views;
    const preempted = this.preempted(nowUs);
    this.#planned.push(nowUs, preempted + this.#between);
    this.#between = 0;
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

  /** TensorRT-LLM's plans tell of no admissions: those of their contexts that wait are admitted. Contexts are the first rows. */
  #contexts(trtWords: Int32Array, handles: number, count: number, nowUs: number): void {
    const { i32 } = this.core.views;
    const starts = (trtWords[TrtWord.ContextStartAt]! >>> 0) >> 2;
    for (let row = 0; row < count; row++) {
      const handle = i32[handles + row]!;
      const timeline = this.#find(handle);
      if (timeline?.waits) this.#admitted(timeline, handle % SLOTS, i32[starts + row]!, nowUs);
    }
  }

  /** `cached`: tokens that were there at this admission. */
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

  /** Takes the core's list of preempted requests in; how many. */
  preempted(nowUs: number): number {
    const { views } = this.core;
    const count = views.word(Word.PlanPreempted);
    const handles = (views.word(Word.PreemptedAt) >>> 0) >> 2;
    for (let i = 0; i < count; i++) {
      const timeline = this.#find(views.i32[handles + i]!);
      if (!timeline) continue;
      const kept = timeline.preempted.length === 3 * timeline.preemptions;
      timeline.preemptions++;
      if (kept && timeline.preemptions <= PREEMPTIONS_MAX && this.keep()) {
        timeline.preempted.push(nowUs, Number.NaN, Number.NaN);
      }
    }
    return count;
  }

  /** The prefix cache was reset by force, between two steps. */
  reset(): void {
    this.#between += this.preempted(this.clock.now());
  }

  /** A step begins; a lateness that is little is none. */
  started({ dueUs, startUs, rebasedUs, isLate, cause }: EndingStep): void {
    const lateUs = isLate ? startUs - dueUs : 0;
    this.stepLateUs = lateUs;
    this.#facts.rebasedUs = rebasedUs;
    this.#facts.cause = cause;
    if (lateUs > 0) this.lateSteps++;
    this.lateUs += lateUs;
    this.rebasedUs += rebasedUs;
  }

  /** The rows of the next step are about to be handed out; its number. */
  begin(dueUs: number): number {
    this.#tell();
    this.dueUs = dueUs;
    this.#parts = 0;
    this.#facts.tokens = this.core.views.word(Word.OutTokens);
    return ++this.#facts.step;
  }

  /** After how many tokens of the step it wants to be told next, with `part`. */
  get nextPart(): number {
    const { tokens } = this.#facts;
    if (tokens < DIVIDED_TOKENS || this.#parts === WRITTEN_PARTS - 1) return Number.POSITIVE_INFINITY;
    return (tokens * (this.#parts + 1)) / WRITTEN_PARTS;
  }

  /** So many tokens have been written: `nextPart`, which is another one now. */
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

  /** A row for a generation that another one's receiver has just ended: computed and counted, but nobody heard it. */
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

  /** The front ended it: at the boundary that the core's times count to; one that was cut off, now. */
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

  /** Notes that the receiver has its first token, or its last. */
  handed(timeline: RequestTimeline): void {
    const nowUs = this.clock.now();
    if (Number.isNaN(timeline.firstWrittenUs)) timeline.firstWrittenUs = nowUs;
    if (timeline.reason !== null && !cutOff(timeline.reason)) timeline.lastWrittenUs = nowUs;
  }

  rested(): void {
    this.#turn();
  }

  /** The engine stops: open steps and those that are alive are told as they stand. */
  stop(alive: Iterable<{ readonly timeline: RequestTimeline | null } | undefined>): void {
    for (const live of alive) {
      if (!live?.timeline) continue;
      live.timeline.settleLate();
      this.#ended.push(live.timeline);
    }
    this.#tell();
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

  /** Who it is, also when the front ended it since the last abort point. */
  #find(handle: number): RequestTimeline | undefined {
    return this.trailAt(handle % SLOTS) ?? this.#ended.find((timeline) => timeline.handle === handle);
  }

  #turn(): void {
    if (this.#turning) return;
    this.#turning = true;
    this.clock.turn(this.#told);
  }

  readonly #told = (): void => {
    this.#turning = false;
    this.#tell();
    if (this.#planned.length === 0) this.observer.idle();
  };

  #tell(): void {
    if (this.#ended.length === 0) return;
    const ended = this.#ended;
    this.#ended = [];
    for (const timeline of ended) {
      timeline.closeRun();
      this.#held -= timeline.runs.length / 3 + timeline.preempted.length / 3;
      this.observer.request(timeline);
    }
  }
}

function cutOff(reason: Finish): boolean {
  return reason === Finish.Abort || reason === Finish.Error;
}

/**
 * Drives one batch on a clock. One step (synchronous) or two (asynchronous) may be open. The next step starts at the
 * end of the one before, or at once when idle. Boundaries are due times, never the late wall clock, so a late host does
 * not change decisions. Order of calls as in vLLM 0.33 `v1/engine/core.py`, `step` and `step_with_batch_queue`.
 */
import { Coast, Word } from "../../assembly/layout.ts";
import type { Cancel, Clock } from "../base/clock.ts";
import type { Batch } from "./batch.ts";
import { Cause, LATE_US } from "./lateness/causes.ts";
import { combineObservers, type EndingStep, type LoopObserver } from "./lateness/loop-observer.ts";

/** If the host is later than one step and this, the loop does not catch up. Engine time is moved forward instead. */
const REBASE_US = 100_000;

/** Duration that the core returns for a step in which nothing can run although requests remain. */
const EMPTY_STEP_US = 1000;

/** Maximum time and number of free steps that share a turn of the event loop, if no client sees the times of their tokens. */
const FREE_US = 250;
const FREE_STEPS_MOST = 64;

/**
 * Turns of the event loop before the first step is updated. Requests that arrive at about the same time then share
 * steps, and their answers are sent together. A client with several requests wakes up once (`bench short`: a tenth
 * less; more turns gave no more).
 */
const GATHERING_TURNS = 2;

export interface LoopOptions {
  readonly batch: Batch;
  readonly clock: Clock;
  readonly asyncScheduling: boolean;
  /** True if steps end when the loop reaches them (`--timing none`), not at a simulated time. */
  readonly free: boolean;
  /** Shortest duration of a step, so that time advances in replays without simulated steps. */
  readonly leastUs: number;
  /** Delivers the rows of the step that was just updated. */
  readonly deliver: () => void;
  /** Moves held requests that are due at `boundaryUs` into the queue. */
  readonly release: (boundaryUs: number) => void;
  /** Returns true if no observer needs steps that end no request. Many of them then run in one call of the core, if the clock allows. */
  readonly coasts?: () => boolean;
  /** Returns true if all receivers collect whole answers, so that no client sees a token before the end. */
  readonly gathers: () => boolean;
  /** Observers of every step, called in this order. */
  readonly observers: readonly LoopObserver[];
}

export class Loop {
  readonly #observers: ReturnType<typeof combineObservers>;
  readonly #openLimit: number;
  /** The step that is being updated. */
  readonly #step: { -readonly [Name in keyof EndingStep]: EndingStep[Name] };
  /** Ends of the open steps, oldest first. */
  readonly #ends: number[] = [];
  #lastEndUs = 0;
  #boundaryUs = 0;
  #waiting: Cancel | null = null;
  /** True if a step was updated and the next is not planned yet. */
  #taking = false;
  /** Time as of which planning starts at the end of this turn. NaN: it does not. */
  #kickUs = Number.NaN;
  #stopped = false;
  /** Turns of the event loop that must still pass before the loop waits for the first step after an idle time. */
  #turnsLeft = 0;

  constructor(private readonly options: LoopOptions) {
    this.#observers = combineObservers(options.observers);
    this.#step = {
      ...{ plannedUs: 0, dueUs: 0, rebasedUs: 0, startUs: 0, endUs: 0, doneUs: 0, rows: 0 },
      ...{ isTimed: !options.free, isLate: false, cause: Cause.None },
    };
    this.#openLimit = options.asyncScheduling ? 2 : 1;
  }

  /** Due time of the last boundary: the engine's current time. */
  get boundaryUs(): number {
    return this.#boundaryUs;
  }

  /** True if no step is open. */
  get idle(): boolean {
    return this.#ends.length === 0;
  }

  /**
   * Time at which a request that enters the queue now would be planned: the next boundary, which on a late host may be
   * in the past. Infinity: as soon as it enters.
   */
  get nextUs(): number {
    if (this.options.free) return Number.POSITIVE_INFINITY;
    return this.#taking ? this.#boundaryUs : (this.#ends[0] ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Called when a request entered the queue at `fromUs`. If idle, starts planning at the end of this turn, as of the
   * last request that entered in it.
   */
  kick(fromUs: number): void {
    if (this.#ends.length > 0 || this.#stopped) return;
    const kicked = !Number.isNaN(this.#kickUs);
    this.#kickUs = kicked ? Math.max(this.#kickUs, fromUs) : fromUs;
    if (kicked) return;
    this.options.clock.soon(() => {
      const kickUs = this.#kickUs;
      this.#kickUs = Number.NaN;
      if (this.#ends.length > 0 || this.#stopped) return;
      this.#boundaryUs = Math.max(kickUs, this.#lastEndUs);
      this.#plan();
      this.#observers.moved?.(this.idle);
      this.#turnsLeft = this.#gathers() ? GATHERING_TURNS : 0;
      this.#gather();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting?.();
  }

  /** Plans as many steps as may be open. */
  #plan(): void {
    const { batch, release } = this.options;
    release(this.#boundaryUs);
    while (this.#ends.length < this.#openLimit && batch.hasWork) {
      this.#observers.planning?.();
      const durationUs = Math.max(batch.plan(this.#boundaryUs), this.options.leastUs);
      this.#lastEndUs = Math.max(this.#lastEndUs, this.#boundaryUs) + durationUs;
      this.#ends.push(this.#lastEndUs);
      this.#observers.planned?.(this.#boundaryUs);
    }
  }

  /** Waits for the end of the oldest open step, at least through one turn of the event loop. */
  #wait(): void {
    const dueUs = this.#ends[0];
    const { clock } = this.options;
    if (dueUs === undefined) {
      this.options.batch.lastPlan.rested();
      this.#observers.rested?.();
      return;
    }
    if (this.#stopped) return;
    if (this.#isFree(dueUs)) clock.turn(this.#end);
    else if (dueUs <= clock.now()) clock.turn(this.#end, true);
    else this.#waiting = clock.at(dueUs, this.#end);
  }

  /** Returns true if no client sees the end of the oldest open step: it takes no time and no stream gets its tokens. */
  #gathers(): boolean {
    return this.#isFree(this.#ends[0]) && this.options.gathers();
  }

  readonly #gather = (): void => {
    if (this.#turnsLeft-- > 0) this.options.clock.turn(this.#gather);
    else this.#wait();
  };

  readonly #end = (): void => {
    let untilUs = Number.NaN;
    let left = FREE_STEPS_MOST;
    do {
      if (this.#stopped) return;
      this.#endStep();
      left--;
      if (Number.isNaN(untilUs)) untilUs = this.#step.startUs + FREE_US;
    } while (left > 0 && this.#step.doneUs < untilUs && this.#gathers());
    this.#wait();
  };

  /**
   * Returns true if a step takes no time. An empty step while requests remain (blocked, or too large for now) takes
   * time, so that the loop does not spin.
   */
  #isFree(dueUs: number | undefined): boolean {
    return this.options.free && dueUs !== undefined && dueUs - this.#boundaryUs < EMPTY_STEP_US;
  }

  #endStep(): void {
    const { clock, deliver } = this.options;
    const step = this.#step;
    step.startUs = clock.now();
    this.#observers.updating?.(step.startUs);
    this.#take();
    this.#observers.started?.(step);
    deliver();
    step.endUs = step.rows > 0 ? clock.now() : step.startUs;
    this.#observers.delivered?.(step);
    this.#plan();
    this.#taking = false;
    step.doneUs = step.rows > 0 ? clock.now() : step.endUs;
    this.#observers.stepped?.(step);
    this.#observers.moved?.(this.idle);
  }

  /** Updates the oldest open step and, in simulated time, all following steps that no observer needs. */
  #take(): void {
    const { batch, free } = this.options;
    const step = this.#step;
    const plannedUs = this.#ends.shift()!;
    const dueUs = free ? step.startUs : this.#rebase(plannedUs, step.startUs);
    step.plannedUs = plannedUs;
    step.rebasedUs = free ? 0 : dueUs - plannedUs;
    this.#boundaryUs = dueUs;
    this.#taking = true;
    if (free) this.#lastEndUs = dueUs;
    step.rows = batch.take(dueUs);
    if (this.#coast(step.rows)) {
      step.plannedUs = this.#boundaryUs;
      step.startUs = this.#boundaryUs;
      step.rows = batch.core.views.words[Word.OutRows]!;
    }
    step.dueUs = this.#boundaryUs;
    step.isLate = !free && (step.rebasedUs > 0 || (step.rows > 0 && step.startUs - step.dueUs > LATE_US));
    step.cause = Cause.None;
  }

  /**
   * Runs steps that no observer needs, in one call. The last of them then counts as the step just updated. `rows`: rows
   * of the step before. Returns true if steps ran.
   */
  #coast(rows: number): boolean {
    const { batch, clock, coasts, free, leastUs } = this.options;
    const nextUs = this.#ends[0];
    if (coasts === undefined || free || nextUs === undefined || this.#ends.length > 1) return false;
    const untilUs = clock.freeUntil?.() ?? Number.NEGATIVE_INFINITY;
    if (nextUs >= untilUs || !coasts()) return false;
    const { course } = batch;
    course[Coast.BoundaryUs] = this.#boundaryUs;
    course[Coast.NextEndUs] = nextUs;
    course[Coast.LastEndUs] = this.#lastEndUs;
    if (batch.coast(untilUs, leastUs) === 0) return false;
    this.#boundaryUs = course[Coast.BoundaryUs]!;
    this.#lastEndUs = course[Coast.LastEndUs]!;
    this.#ends.length = 0;
    if (course[Coast.NextEndUs]! < Number.POSITIVE_INFINITY) this.#ends.push(course[Coast.NextEndUs]!);
    clock.skip!(this.#boundaryUs);
    // The last step is counted by the code that follows.
    const last = batch.core.views.words[Word.OutRows]! > 0 ? 1 : 0;
    this.#observers.coasted?.((rows > 0 ? 1 : 0) + course[Coast.TokenSteps]! - last);
    return true;
  }

  /** Returns the boundary's time: the due time, unless the host is too far behind. */
  #rebase(dueUs: number, nowUs: number): number {
    const behindUs = nowUs - dueUs;
    const stepUs = Math.max(0, dueUs - this.#boundaryUs);
    if (behindUs <= stepUs + REBASE_US) return dueUs;
    for (let i = 0; i < this.#ends.length; i++) this.#ends[i]! += behindUs;
    this.#lastEndUs += behindUs;
    return nowUs;
  }
}

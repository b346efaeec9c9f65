/**
 * When does which step happen? Drives one batch on a clock: at most one step (synchronous) or two (asynchronous) are
 * open, the next starts at the end of the one before, or at once when idle. Boundaries are due times, never the late wall
 * clock, so a late host does not change what is decided. Order of calls as vLLM 0.33 `v1/engine/core.py`,
 * `step` and `step_with_batch_queue`.
 */
import { Coast, Word } from "../../assembly/layout.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Batch } from "./batch.ts";
import { type Cause, LATE_US } from "./causes.ts";
import type { Lateness } from "./lateness.ts";
import type { Watch } from "./watch.ts";

/** A host that is later than a step and this much is not caught up with: the engine's time moves on instead. */
const REBASE_US = 100_000;

/** What the core says of a step in which nothing can run though requests remain. */
const EMPTY_STEP_US = 1000;

export interface LoopOptions {
  readonly batch: Batch;
  readonly clock: Clock;
  readonly asyncScheduling: boolean;
  /** Steps end when the loop gets to them (`--timing none`), not at a simulated time. */
  readonly free: boolean;
  /** A step lasts at least this: time without simulated steps still moves on in replay. */
  readonly leastUs: number;
  /** Hands out the rows of the step that was just taken in. */
  readonly deliver: () => void;
  /** Moves requests that were held back until `boundaryUs` into the queue. */
  readonly release: (boundaryUs: number) => void;
  /** Called after each delivery with due, start and end of writing: the truth about punctuality. */
  readonly onStep?: (dueUs: number, startUs: number, endUs: number) => void;
  /** Called before each update with the time at which it is taken in. */
  readonly beforeUpdate?: (nowUs: number) => void;
  /** Called when what can be seen of the batch has moved: after an update with its plan, and after a plan from idle. `idle`: no step is open. */
  readonly moved?: (idle: boolean) => void;
  /** Told of every step, when it is planned and when its rows are out. */
  readonly watch?: Watch;
  /** Called before each plan and after each update: the points at which vLLM's engine publishes how loaded it is. */
  readonly publish?: () => void;
  /** Does nobody look at a step that ends no request? Then many of them are one call of the core, where the clock allows. */
  readonly coasts?: () => boolean;
  /** Told of late steps, and when the thread was a step's. */
  readonly lateWatch?: LateWatch;
  /** Called whenever planning leaves no step open. */
  readonly rest: () => void;
  /** Shared by loops that count together. */
  readonly lateness: Lateness;
}

/** Who wants to know of steps that began late. */
export interface LateWatch {
  /** A step that gave tokens, or whose boundary was moved: what held it up? `rebasedUs`: engine time moves on by so much. */
  late(dueUs: number, startUs: number, rebasedUs: number): Cause;
  /** A step was taken in, written and followed by its plan. */
  stepped(fromUs: number, untilUs: number): void;
}

export class Loop {
  readonly #options: LoopOptions;
  readonly #openLimit: number;
  /** Ends of the open steps, oldest first, and the duration of the oldest. */
  readonly #ends: number[] = [];
  #lastEndUs = 0;
  #boundaryUs = 0;
  #waiting: Cancel | null = null;
  /** A step was taken in and the next is not planned yet. */
  #taking = false;
  /** As of when planning starts at the end of this turn; NaN: it does not. */
  #kickUs = Number.NaN;
  #stopped = false;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#openLimit = options.asyncScheduling ? 2 : 1;
  }

  /** The due time of the last boundary: the engine's own now. */
  get boundaryUs(): number {
    return this.#boundaryUs;
  }

  /** No step is open. */
  get idle(): boolean {
    return this.#ends.length === 0;
  }

  /**
   * When what enters the queue now would be planned: the next boundary, which on a late host may be long past; Infinity:
   * when it enters.
   */
  get nextUs(): number {
    if (this.#options.free) return Number.POSITIVE_INFINITY;
    return this.#taking ? this.#boundaryUs : (this.#ends[0] ?? Number.POSITIVE_INFINITY);
  }

  /** Something entered the queue at `fromUs`. When idle, planning starts at the end of this turn, as of the last that entered in it. */
  kick(fromUs: number): void {
    if (this.#ends.length > 0 || this.#stopped) return;
    const kicked = !Number.isNaN(this.#kickUs);
    this.#kickUs = kicked ? Math.max(this.#kickUs, fromUs) : fromUs;
    if (kicked) return;
    this.#options.clock.soon(() => {
      const kickUs = this.#kickUs;
      this.#kickUs = Number.NaN;
      if (this.#ends.length > 0 || this.#stopped) return;
      this.#boundaryUs = Math.max(kickUs, this.#lastEndUs);
      this.#plan();
      this.#options.moved?.(this.idle);
      this.#wait();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting?.();
  }

  /** Plans as many steps as may be open. */
  #plan(): void {
    const { batch, publish, release, watch } = this.#options;
    release(this.#boundaryUs);
    while (this.#ends.length < this.#openLimit && batch.hasWork) {
      publish?.();
      const durationUs = Math.max(batch.plan(this.#boundaryUs), this.#options.leastUs);
      this.#lastEndUs = Math.max(this.#lastEndUs, this.#boundaryUs) + durationUs;
      this.#ends.push(this.#lastEndUs);
      watch?.planned(this.#boundaryUs);
    }
  }

  /** Waits for the end of the oldest open step, through a turn of the event loop at least. */
  #wait(): void {
    const dueUs = this.#ends[0];
    const { clock, free, rest, watch } = this.#options;
    if (dueUs === undefined) {
      this.#options.batch.lastPlan.rested();
      watch?.idle();
      rest();
      return;
    }
    if (this.#stopped) return;
    // A free step takes no time, but an empty one while requests remain (blocked, or too large for now): it must not spin.
    if ((free && dueUs - this.#boundaryUs < EMPTY_STEP_US) || dueUs <= clock.now()) clock.turn(this.#end);
    else this.#waiting = clock.at(dueUs, this.#end);
  }

  readonly #end = (): void => {
    if (this.#stopped) return;
    const { batch, beforeUpdate, clock, deliver, free, lateness, lateWatch, moved, onStep, publish, watch } =
      this.#options;
    let startUs = clock.now();
    beforeUpdate?.(startUs);
    const plannedUs = this.#ends.shift()!;
    let dueUs = free ? startUs : this.#rebase(plannedUs, startUs);
    const rebasedUs = free ? 0 : dueUs - plannedUs;
    this.#boundaryUs = dueUs;
    this.#taking = true;
    if (free) this.#lastEndUs = dueUs;
    let rows = batch.take(dueUs);
    if (this.#coast(rows)) {
      dueUs = this.#boundaryUs;
      startUs = dueUs;
      rows = batch.core.views.words[Word.OutRows]!;
    }
    publish?.();
    const late = !free && (rebasedUs > 0 || (rows > 0 && startUs - dueUs > LATE_US));
    const cause = late && lateWatch ? lateWatch.late(plannedUs, startUs, rebasedUs) : 0;
    watch?.starts(late ? startUs - dueUs : 0, rebasedUs, cause);
    deliver();
    if (rows > 0) {
      const endUs = clock.now();
      // From when it was due as planned: a boundary that was moved would hide the very worst.
      if (!free) lateness.late(startUs - dueUs + rebasedUs, endUs - dueUs + rebasedUs);
      lateness.wrote(endUs - startUs);
      onStep?.(dueUs, startUs, endUs);
      watch?.took(dueUs, startUs, endUs);
    } else watch?.took(dueUs, startUs, startUs);
    this.#plan();
    this.#taking = false;
    if (rows > 0) {
      const doneUs = clock.now();
      lateness.hosted(doneUs - startUs);
      if (!free) lateWatch?.stepped(startUs, doneUs);
    }
    moved?.(this.idle);
    this.#wait();
  };

  /** Goes on through steps that concern nobody; the last of them is then as if it were the one just taken in. `rows` as of that one. */
  #coast(rows: number): boolean {
    const { batch, clock, coasts, free, lateness, leastUs } = this.#options;
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
    // The last one is counted with what follows.
    const last = batch.core.views.words[Word.OutRows]! > 0 ? 1 : 0;
    lateness.punctual((rows > 0 ? 1 : 0) + course[Coast.Given]! - last);
    return true;
  }

  /** The boundary's time: when it was due, unless the host has fallen too far behind. */
  #rebase(dueUs: number, nowUs: number): number {
    const behindUs = nowUs - dueUs;
    const stepUs = Math.max(0, dueUs - this.#boundaryUs);
    if (behindUs <= stepUs + REBASE_US) return dueUs;
    this.#options.lateness.rebased(behindUs);
    for (let i = 0; i < this.#ends.length; i++) this.#ends[i]! += behindUs;
    this.#lastEndUs += behindUs;
    return nowUs;
  }
}

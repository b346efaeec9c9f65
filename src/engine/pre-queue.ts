/**
 * Holds requests before they enter the queue: for the request overhead, or because a boundary is overdue. A late host's
 * step would otherwise include requests that were sent after it.
 */

import type { Cancel, Clock } from "../base/clock.ts";
import { mix } from "../base/random.ts";
import { normal } from "../text/answers/answers.ts";
import type { StepPacing } from "./config/engine-config.ts";
import type { LoopObserver } from "./lateness/loop-observer.ts";
import { heldUs } from "./timing/timing.ts";

/** Largest deviation of a time from its mean, as a share. */
const MOST = 0.7;

interface DelayedItem<T> {
  readonly item: T;
  readonly dueUs: number;
}

export class PreQueue<T> implements LoopObserver {
  /** Sorted by due time. Arrivals are nearly in order, so a new one nearly always goes to the end. */
  #delayed: DelayedItem<T>[] = [];
  #timer: Cancel | null = null;
  #overheadUs = 0;
  #speed = 1;
  #sigma = 0;
  #drawn = 0;

  constructor(
    readonly clock: Clock,
    pace: StepPacing,
    /** Seed of varying times, which are drawn by the number of the request. */
    readonly seed: number,
    /** Returns the time at which a request that enters now would be planned. */
    readonly nextUs: () => number,
    readonly enter: (item: T, dueUs: number) => void,
  ) {
    this.retime(pace);
  }

  /** Applies a pace to requests from now on. */
  retime(pace: StepPacing): void {
    this.#overheadUs = heldUs(pace);
    this.#speed = pace.speed ?? 1;
    this.#sigma = pace.noise?.overheadSigma ?? 0;
  }

  get size(): number {
    return this.#delayed.length;
  }

  /**
   * Holds a request. Returns false if it may enter the queue at once, at `nowUs`. `ownUs`: time to hold it at the
   * engine's speed, instead of the request overhead.
   */
  hold(item: T, nowUs: number, arrivalUs: number, ownUs?: number): boolean {
    const heldUs = ownUs === undefined ? this.#overhead() : Math.round(ownUs / this.#speed);
    const dueUs = Math.max(arrivalUs + heldUs, nowUs);
    if (dueUs === nowUs && nowUs <= this.nextUs()) return false;
    let at = this.#delayed.length;
    while (at > 0 && this.#delayed[at - 1]!.dueUs > dueUs) at--;
    this.#delayed.splice(at, 0, { item, dueUs });
    if (at === 0) this.#arm();
    return true;
  }

  /** Releases all requests that are due at `untilUs`, in order. */
  release(untilUs: number): void {
    let count = 0;
    while (count < this.#delayed.length && this.#delayed[count]!.dueUs <= untilUs) count++;
    if (count === 0) return;
    const due = this.#delayed.splice(0, count);
    this.#arm();
    for (const { item, dueUs } of due) this.enter(item, dueUs);
  }

  /** Releases due requests when the engine is idle, because no boundary would do it. */
  rested(): void {
    const first = this.#delayed[0];
    if (first && first.dueUs <= this.clock.now()) this.release(first.dueUs);
  }

  drop(item: T): void {
    const at = this.#delayed.findIndex((delayed) => delayed.item === item);
    if (at >= 0) this.#delayed.splice(at, 1);
    if (at === 0) this.#arm();
  }

  /** Removes all requests and returns them. */
  clear(): T[] {
    const items = this.#delayed.map(({ item }) => item);
    this.#delayed = [];
    this.#arm();
    return items;
  }

  #overhead(): number {
    if (this.#overheadUs === 0 || this.#sigma === 0) return this.#overheadUs;
    const off = Math.max(-MOST, Math.min(MOST, this.#sigma * normal(mix(this.seed, this.#drawn++))));
    return Math.round(this.#overheadUs * (1 + off));
  }

  #arm(): void {
    this.#timer?.();
    const first = this.#delayed[0];
    if (!first) this.#timer = null;
    else
      this.#timer = this.clock.at(first.dueUs, () => {
        if (first.dueUs <= this.nextUs()) this.release(first.dueUs);
      });
  }
}

/** What is a late host to the engine? A virtual clock that wakes later than it was asked to. */
import type { Cancel, Clock } from "../../src/base/clock.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";

/** Wakes `lateUs()` after the time asked for. */
export class LateClock implements Clock {
  readonly inner = new VirtualClock();
  /** For so long the current turn has been at work. */
  workedUs = 0;
  constructor(readonly lateUs: () => number) {}
  now(): number {
    return this.inner.now() + this.workedUs;
  }
  at(dueUs: number, wake: () => void): Cancel {
    return this.inner.at(Math.max(dueUs, this.inner.now()) + this.lateUs(), wake);
  }
  nextUs(): number {
    return this.inner.nextUs();
  }
  turn(run: () => void): void {
    this.inner.turn(run);
  }
  soon(run: () => void): void {
    this.inner.soon(run);
  }
  close(): void {
    this.inner.close();
  }
}

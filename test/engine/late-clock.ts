/** A virtual clock that wakes later than requested, to simulate a late host. */
import type { Cancel, Clock } from "../../src/base/clock.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";

/** Wakes `lateUs()` after the requested time. */
export class LateClock implements Clock {
  readonly inner = new VirtualClock();
  /** Time for which the current turn has been working. */
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

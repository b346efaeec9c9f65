/**
 * Delays long work until no step is about to be due. Reading a body of half a megabyte takes milliseconds. Streams are on time
 * only if such work waits for the gap between two steps.
 */
import type { Cancel, Clock } from "../clock.ts";

interface Waiting {
  readonly sinceUs: number;
  readonly go: (found: boolean) => void;
}

export class SpareTime {
  readonly #queue: Waiting[] = [];
  readonly #gaps: Gaps;

  /**
   * `neededUs`: about the longest time that the work takes. `patienceUs`: longest wait for a gap of that length between steps.
   * Both are microseconds.
   */
  constructor(
    readonly clock: Clock,
    readonly neededUs: number,
    readonly patienceUs: number,
  ) {
    this.#gaps = gapsOf(clock);
  }

  /**
   * Waits for a gap: a time of at least `neededUs` in which nothing is due. Calls resolve in order, at most one per turn of the
   * event loop. Resolves to true in a gap, and to false if `patienceUs` passed without a gap.
   */
  pass(): Promise<boolean> {
    return new Promise((go) => {
      this.#queue.push({ sinceUs: this.clock.now(), go });
      this.#gaps.wait(this);
    });
  }

  /** True if no callback of the clock is due within `neededUs`. */
  get isThere(): boolean {
    return this.clock.nextUs() - this.clock.now() >= this.neededUs;
  }

  /** True if a call of `pass` waits. The class `Gaps` below reads it. */
  get waits(): boolean {
    return this.#queue.length > 0;
  }

  /**
   * Resolves the call of `pass` that has waited longest if the time until `dueUs` is enough for it, or if it has no patience left.
   * Returns true if a call was resolved. The class `Gaps` below calls it.
   */
  offer(nowUs: number, dueUs: number): boolean {
    const first = this.#queue[0];
    if (first === undefined) return false;
    const found = dueUs - nowUs >= this.neededUs;
    if (!found && nowUs - first.sinceUs < this.patienceUs) return false;
    this.#queue.shift();
    first.go(found);
    return true;
  }
}

/**
 * Wakes the waiting calls of all `SpareTime` objects of one clock with one shared callback. A callback per call would look like
 * due work to the other calls. Two such calls woke each other in turn, and no step ran between them until the patience of one
 * had passed.
 */
class Gaps {
  readonly #waiting = new Set<SpareTime>();
  /** True if `#look` will run in the next turn. */
  #soon = false;
  #later: Cancel | null = null;

  constructor(private readonly clock: Clock) {}

  wait(one: SpareTime): void {
    this.#waiting.add(one);
    this.#lookSoon();
  }

  #lookSoon(): void {
    if (this.#soon) return;
    this.#soon = true;
    this.clock.turn(this.#look);
  }

  readonly #look = (): void => {
    this.#soon = false;
    this.#later?.();
    this.#later = null;
    const nowUs = this.clock.now();
    const dueUs = this.clock.nextUs();
    let gone = false;
    for (const one of this.#waiting) {
      gone = one.offer(nowUs, dueUs);
      if (!one.waits) this.#waiting.delete(one);
      // The work of the resolved call takes time, so the other calls look for a gap again afterwards.
      if (gone) break;
    }
    if (this.#waiting.size === 0) return;
    if (gone) this.#lookSoon();
    // Look again after the callback that is due at `dueUs`. The next due time is known then.
    else this.#later = this.clock.at(dueUs, this.#look);
  };
}

const gapsByClock = new WeakMap<Clock, Gaps>();

function gapsOf(clock: Clock): Gaps {
  const gaps = gapsByClock.get(clock) ?? new Gaps(clock);
  gapsByClock.set(clock, gaps);
  return gaps;
}

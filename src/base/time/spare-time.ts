/**
 * Delays long pieces of work until no step is about to be due. Reading a body of half a megabyte
 * takes milliseconds, and streams are on time only if it waits for the gap between two steps.
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
   * `neededUs`: what the work takes at most, about. `patienceUs`: steps that leave no such gap do not hold it up longer.
   */
  constructor(
    readonly clock: Clock,
    readonly neededUs: number,
    readonly patienceUs: number,
  ) {
    this.#gaps = gapsOf(clock);
  }

  /**
   * Settles when nothing is due for a while, in order of the calls and at most once per turn of the event loop. Resolves to
   * false if there was no such gap within the patience.
   */
  pass(): Promise<boolean> {
    return new Promise((go) => {
      this.#queue.push({ sinceUs: this.clock.now(), go });
      this.#gaps.wait(this);
    });
  }

  /** True if nothing is due for `neededUs`. */
  get isThere(): boolean {
    return this.clock.nextUs() - this.clock.now() >= this.neededUs;
  }

  /** True if work waits. For `Gaps`. */
  get waits(): boolean {
    return this.#queue.length > 0;
  }

  /** For `Gaps`: nothing is due before `dueUs`. Returns true if the first waiting work was started. */
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
 * The waiting calls of one clock, which share one wake-up. With a wake-up per call, each call would look like due work to the
 * others. Two such calls woke each other in turn, and no step came between them until one had lost its patience.
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
      // The work of this call takes time, so the other calls look for a gap again afterwards.
      if (gone) break;
    }
    if (this.#waiting.size === 0) return;
    if (gone) this.#lookSoon();
    // Behind what is due; by then the next due time is known.
    else this.#later = this.clock.at(dueUs, this.#look);
  };
}

const gapsByClock = new WeakMap<Clock, Gaps>();

function gapsOf(clock: Clock): Gaps {
  const gaps = gapsByClock.get(clock) ?? new Gaps(clock);
  gapsByClock.set(clock, gaps);
  return gaps;
}

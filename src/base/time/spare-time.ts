/**
 * When may a long piece of work have the thread? Not when a step is about to be due: reading a body of half a megabyte
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
   * Settles, in order of the calls, at most once per turn of the event loop, when nothing is due for a while; false:
   * there was no such gap within the patience.
   */
  pass(): Promise<boolean> {
    return new Promise((go) => {
      this.#queue.push({ sinceUs: this.clock.now(), go });
      this.#gaps.wait(this);
    });
  }

  /** Is nothing due for as long as the work takes? */
  get isThere(): boolean {
    return this.clock.nextUs() - this.clock.now() >= this.neededUs;
  }

  /** For `Gaps`. */
  get waits(): boolean {
    return this.#queue.length > 0;
  }

  /** For `Gaps`: nothing is due before `dueUs`. Has the first that waits gone? */
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
 * All that wait for gaps on one clock, with one wake-up among them: whoever waits must not look like something that is due
 * to the others. Two that did woke each other in turn, and no step came between them until one had lost its patience.
 */
class Gaps {
  readonly #clock: Clock;
  readonly #waiting = new Set<SpareTime>();
  /** A look at the next turn is ordered; behind what is due, likewise. */
  #soon = false;
  #later: Cancel | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wait(one: SpareTime): void {
    this.#waiting.add(one);
    this.#lookSoon();
  }

  #lookSoon(): void {
    if (this.#soon) return;
    this.#soon = true;
    this.#clock.turn(this.#look);
  }

  readonly #look = (): void => {
    this.#soon = false;
    this.#later?.();
    this.#later = null;
    const nowUs = this.#clock.now();
    const dueUs = this.#clock.nextUs();
    let gone = false;
    for (const one of this.#waiting) {
      gone = one.offer(nowUs, dueUs);
      if (!one.waits) this.#waiting.delete(one);
      // What it does now takes time: the others look again after it.
      if (gone) break;
    }
    if (this.#waiting.size === 0) return;
    if (gone) this.#lookSoon();
    // Behind what is due; by then the next due time is known.
    else this.#later = this.#clock.at(dueUs, this.#look);
  };
}

const gapsByClock = new WeakMap<Clock, Gaps>();

function gapsOf(clock: Clock): Gaps {
  const gaps = gapsByClock.get(clock) ?? new Gaps(clock);
  gapsByClock.set(clock, gaps);
  return gaps;
}

/** Request bodies after which a collection is asked for: each leaves some five times its size behind. */
const COLLECT_AFTER_BYTES = 4 * 2 ** 20;
/**
 * Halves of streams after which one of what is new is asked for: what making them leaves lies among what they keep while they
 * are open. Reading a request leaves as much as opening its stream; a burst of them is read before the first is opened.
 */
const COLLECT_AFTER_HALVES = 512;
/** A stream leaves as much as a body of so many bytes. */
const STREAM_BYTES = 4096;
/** Streams after which the next collection is a whole one in any case: what a stream kept while it was open is old by its end. */
const WHOLE_AFTER_STREAMS = 4096;
/** After a burst the rest is collected when nothing came for this long, unless it is little. */
const REST_US = 500_000;
const LITTLE_BYTES = 2 ** 21;

/** All garbage, now, as there is time for that; all, beside streams; or what is new, beside them. */
export type Collection = "whole" | "whole, beside streams" | "young";

/**
 * When is garbage collected? The host sees the core's reserved memory as live and lets as much garbage gather; so it is
 * told, by the amount of bodies read and of streams opened, in spare time.
 */
export class Garbage {
  /** Since the last collection. */
  #bytes = 0;
  /** In all, and at the last look. */
  #all = 0;
  #seen = 0;
  #looking = false;
  /** A collection was asked for, and waits for a gap. */
  #asking = false;
  /** So many whole ones found no gap, or stand behind one that did not, and are made up for when the streams leave one. */
  #owed = 0;
  #makingUp = false;
  /**
   * There is one more behind the last whole one: a burst had not let go of what was on its way, and the runtime (Bun 1.4)
   * gives memory back before it collects, not behind that.
   */
  #again = false;
  #halves = 0;
  #streams = 0;
  /** As of the last whole collection. */
  #streamsThen = 0;

  constructor(
    readonly spare: SpareTime,
    readonly collect: (what: Collection) => void,
  ) {}

  readonly add = (bytes: number): void => {
    this.#bytes += bytes;
    this.#all += bytes;
    if (this.#bytes >= COLLECT_AFTER_BYTES) this.#ask();
    else if (!this.#looking && this.#bytes >= LITTLE_BYTES) this.#lookLater();
  };

  /** A request for a stream was read. */
  readonly read = (): void => this.#half();

  readonly opened = (): void => {
    this.#streams++;
    this.#half();
    this.add(STREAM_BYTES);
  };

  #half(): void {
    if (++this.#halves % COLLECT_AFTER_HALVES === 0) this.collect("young");
  }

  #ask(atRest = false): void {
    this.#bytes = 0;
    // While a whole one waits for its gap, an answer of megabytes would leave hundreds of them.
    if (this.#asking) {
      this.collect("young");
      return;
    }
    this.#asking = true;
    void this.spare.pass().then((found) => {
      this.#asking = false;
      const isDue = this.#streams - this.#streamsThen >= WHOLE_AFTER_STREAMS;
      if (found || isDue) {
        this.#whole(found ? "whole" : "whole, beside streams");
        if (found && !atRest) this.#onceMore();
        else this.#again = false;
      } else {
        this.collect("young");
        if (atRest) this.#again = false;
        this.#owe(atRest ? 1 : 2);
      }
    });
  }

  #whole(what: "whole" | "whole, beside streams"): void {
    this.#streamsThen = this.#streams;
    this.#owed = 0;
    this.collect(what);
  }

  #onceMore(): void {
    this.#again = true;
    if (!this.#looking) this.#lookLater();
  }

  #owe(count: number): void {
    this.#owed = Math.max(this.#owed, count);
    this.#makeUpLater();
  }

  #makeUpLater(): void {
    if (this.#makingUp) return;
    this.#makingUp = true;
    const { clock } = this.spare;
    clock.at(clock.now() + REST_US, () => {
      // Not only now: what is due every half a second, too, may be so each time that this looks.
      void this.spare.pass().then((found) => {
        this.#makingUp = false;
        const owed = this.#owed;
        if (owed === 0) return;
        if (found) {
          this.#whole("whole");
          if (owed > 1) this.#onceMore();
        } else this.#makeUpLater();
      });
    });
  }

  #lookLater(): void {
    this.#looking = true;
    this.#seen = this.#all;
    const { clock } = this.spare;
    clock.at(clock.now() + REST_US, () => {
      this.#looking = false;
      if (this.#bytes < LITTLE_BYTES && !this.#again) return;
      if (this.#all === this.#seen) this.#ask(true);
      else this.#lookLater();
    });
  }
}

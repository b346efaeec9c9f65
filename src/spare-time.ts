/**
 * When may a long piece of work have the thread? Not when a step is about to be due: reading a body of half a megabyte
 * takes milliseconds, and streams are on time only if it waits for the gap between two steps.
 */
import type { Clock } from "./clock.ts";

/** What such a piece of work takes at most, about. */
const NEEDED_US = 4000;
/** Steps that leave no such gap do not hold work up for ever. */
const PATIENCE_US = 200_000;

interface Waiting {
  readonly sinceUs: number;
  readonly go: () => void;
}

export class SpareTime {
  readonly #queue: Waiting[] = [];
  #armed = false;

  constructor(readonly clock: Clock) {}

  /** Settles, in order of the calls, at most once per turn of the event loop, when nothing is due for a while. */
  pass(): Promise<void> {
    return new Promise((go) => {
      this.#queue.push({ sinceUs: this.clock.now(), go });
      if (!this.#armed) this.#next();
    });
  }

  #next(): void {
    this.#armed = true;
    this.clock.turn(this.#look);
  }

  readonly #look = (): void => {
    this.#armed = false;
    const first = this.#queue[0];
    if (first === undefined) return;
    const { clock } = this;
    const nowUs = clock.now();
    const dueUs = clock.nextUs();
    if (dueUs - nowUs >= NEEDED_US || nowUs - first.sinceUs >= PATIENCE_US) {
      this.#queue.shift();
      first.go();
      if (this.#queue.length > 0) this.#next();
      return;
    }
    // Behind what is due; by then the next due time is known.
    this.#armed = true;
    clock.at(dueUs, this.#look);
  };
}

/** Request bodies after which a collection is asked for: each leaves some five times its size behind. */
const COLLECT_AFTER_BYTES = 4 * 2 ** 20;

/**
 * When is garbage collected? The host sees the core's reserved memory as live and lets as much garbage gather; so it is
 * told, by the amount of bodies read, in spare time. `collect` must not wait for the collection.
 */
export class Garbage {
  #bytes = 0;

  constructor(
    readonly spare: SpareTime,
    readonly collect: () => void,
  ) {}

  readonly add = (bytes: number): void => {
    this.#bytes += bytes;
    if (this.#bytes < COLLECT_AFTER_BYTES) return;
    this.#bytes = 0;
    void this.spare.pass().then(this.collect);
  };
}

/**
 * Counts the open streams of all connections of a server. A young collection takes longer the more objects survive it, and
 * thousands of new open streams would all survive the next one. One connection may have few of them.
 */

/** Number of open streams from which newly opened ones are counted, and how many of those are reported together. */
const CROWD_STREAMS = 512;

export class OpenStreams {
  #open = 0;
  /** Number of streams opened while at least `CROWD_STREAMS` were open. */
  #crowding = 0;

  /** `crowded`: called after each 512 streams that open while at least as many are open. */
  constructor(private readonly crowded: () => void) {}

  opened(): void {
    if (++this.#open >= CROWD_STREAMS && ++this.#crowding % CROWD_STREAMS === 0) this.crowded();
  }

  ended(): void {
    this.#open--;
  }
}

/**
 * Counts open objects of a server, such as the connections of HTTP/1 or the streams of HTTP/2. A young collection takes longer
 * the more objects survive it, and thousands of newly opened ones would all survive the next one. A count for each connection
 * would not see streams that are spread over many connections.
 */

/** Number of open objects from which newly opened ones are counted, and how many of those are reported together. */
const CROWD = 512;

export class OpenCount {
  #open = 0;
  /** Number of objects opened while at least `CROWD` were open. */
  #crowding = 0;

  /** `crowded`: called after each 512 objects that open while at least as many are open. */
  constructor(private readonly crowded: () => void = () => {}) {}

  opened(): void {
    if (++this.#open >= CROWD && ++this.#crowding % CROWD === 0) this.crowded();
  }

  ended(): void {
    this.#open--;
  }
}

/**
 * Gives each connection with more work one turn of the event loop, in the order in which they asked. Other sockets are served
 * between two turns, so a thousand clients with much to read delay the others no longer than one such client does.
 */
import { logUnexpected } from "../../base/unexpected.ts";

/** A connection in the queue. If its `turn` throws, only this connection is cut. */
interface TurnTaker {
  turn(): void;
  cut(): void;
}

export class TurnQueue<T extends TurnTaker> {
  readonly #waiting = new Set<T>();
  readonly #later: (run: () => void) => void;
  #ordered = false;

  /** `later` runs a function in the next turn of the event loop. */
  constructor(later: (run: () => void) => void) {
    this.#later = later;
  }

  /** Schedules one call of the connection's `turn`, in one of the next turns of the event loop. */
  add(one: T): void {
    this.#waiting.add(one);
    this.#order();
  }

  /** Removes a connection from the queue. */
  delete(one: T): void {
    this.#waiting.delete(one);
  }

  #order(): void {
    if (this.#ordered || this.#waiting.size === 0) return;
    this.#ordered = true;
    this.#later(this.#take);
  }

  readonly #take = (): void => {
    this.#ordered = false;
    const [first] = this.#waiting;
    if (first === undefined) return;
    this.#waiting.delete(first);
    this.#order();
    try {
      first.turn();
    } catch (error) {
      logUnexpected("a connection failed and is closed", error);
      first.cut();
    }
  };
}

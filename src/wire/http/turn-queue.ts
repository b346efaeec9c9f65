/**
 * Gives connections that have more to do one turn of the event loop each, in the order in which they asked. Sockets are
 * served between two of them, so that a thousand clients with much to read hold nobody up longer than one does.
 */
import { logUnexpected } from "../../base/unexpected.ts";

/** An error in its turn costs a connection alone: it is cut. */
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

  /** Calls `turn` of it once, in one of the next turns of the event loop. */
  add(one: T): void {
    this.#waiting.add(one);
    this.#order();
  }

  /** Takes it back. */
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

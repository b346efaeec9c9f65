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
  #isScheduled = false;

  /** `later` runs a function in the next turn of the event loop. */
  constructor(private readonly later: (run: () => void) => void) {}

  /** Schedules one call of the connection's `turn`, in one of the next turns of the event loop. */
  add(connection: T): void {
    this.#waiting.add(connection);
    this.#schedule();
  }

  /** Removes a connection from the queue. */
  delete(connection: T): void {
    this.#waiting.delete(connection);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    this.later(this.#runNext);
  }

  readonly #runNext = (): void => {
    this.#isScheduled = false;
    const [first] = this.#waiting;
    if (first === undefined) return;
    this.#waiting.delete(first);
    this.#schedule();
    try {
      first.turn();
    } catch (error) {
      logUnexpected("a connection failed and is closed", error);
      first.cut();
    }
  };
}

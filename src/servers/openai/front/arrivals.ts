/**
 * In which order do requests reach the engine? As they arrived, although prompts are encoded elsewhere and token-id
 * prompts need no encoding at all.
 */
import { logUnexpected } from "../../../base/unexpected.ts";

const NOBODY = Promise.resolve();

export class ArrivalOrder {
  #last: Promise<unknown> = NOBODY;
  #waiting = 0;

  /** Nobody is before the next one. */
  get clear(): boolean {
    return this.#waiting === 0;
  }

  /**
   * What `ready` gives, null where it is rejected, once it and all earlier calls have settled. Who awaits it runs before
   * those who came later, up to its own next await.
   */
  pass<T>(ready: Promise<T>): Promise<T | null> {
    this.#waiting++;
    const passed = Promise.allSettled([ready, this.#last]).then(([settled]) => {
      // Kept until the next one came, it would keep what it gives: all prompts of a request.
      if (--this.#waiting === 0) this.#last = NOBODY;
      if (settled.status === "fulfilled") return settled.value;
      logUnexpected("a request failed and is answered with 500", settled.reason);
      return null;
    });
    this.#last = passed;
    return passed;
  }
}

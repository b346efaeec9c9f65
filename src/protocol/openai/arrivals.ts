/**
 * In which order do requests reach the engine? As they arrived, although prompts are encoded elsewhere and token-id
 * prompts need no encoding at all.
 */

export class Arrivals {
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  /** Nobody is before the next one. */
  get clear(): boolean {
    return this.#waiting === 0;
  }

  /**
   * Settles, never rejected, once `ready` and all earlier calls have settled. Who awaits it runs before those who came
   * later, up to its own next await.
   */
  pass(ready: Promise<unknown>): Promise<void> {
    this.#waiting++;
    this.#last = Promise.allSettled([this.#last, ready]).then(() => {
      this.#waiting--;
    });
    return this.#last;
  }
}

/** Decides when a worker that died is restarted, and when the server gives up. */

/** A worker that served for less than this counts as a short life, in microseconds. */
export const SHORT_LIFE_US = 1_000_000;
/** Number of short lives in a row after which the server ends. */
export const SHORT_LIVES_MAX = 10;
export const FIRST_DELAY_US = 100_000;
export const LONGEST_DELAY_US = 5_000_000;

/** Counts the short lives of one worker. */
export class Restarts {
  #shortLives = 0;

  /**
   * Notes that the worker ended after it had listened for `servedUs`, 0 if it never did. Returns the delay of the next
   * start in microseconds, doubled with each short life; null: no restart.
   */
  died(servedUs: number): number | null {
    this.#shortLives = servedUs < SHORT_LIFE_US ? this.#shortLives + 1 : 0;
    if (this.#shortLives >= SHORT_LIVES_MAX) return null;
    return Math.min(LONGEST_DELAY_US, FIRST_DELAY_US * 2 ** Math.max(0, this.#shortLives - 1));
  }
}

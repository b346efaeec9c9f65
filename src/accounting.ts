/** What happened outside the core? Every generation request is counted exactly once by its outcome. */
import type { FrontSnapshot, Outcome } from "./engine/types.ts";

export class Accounts {
  readonly #outcomes: Record<Outcome, number> = { stop: 0, length: 0, abort: 0, refused: 0, error: 0 };
  #open = 0;

  opened(): void {
    this.#open++;
  }

  settled(outcome: Outcome): void {
    this.#open--;
    this.#outcomes[outcome]++;
  }

  snapshot(): FrontSnapshot {
    return { outcomes: { ...this.#outcomes }, streamsOpen: this.#open };
  }
}

/** What happened outside the core? Every generation request is counted exactly once by its outcome. */
import type { FrontSnapshot, Outcome } from "./engine/types.ts";

export class Accounts implements FrontSnapshot {
  readonly outcomes: Record<Outcome, number> = { stop: 0, length: 0, abort: 0, refused: 0, error: 0 };
  streamsOpen = 0;
  readonly workerRestarts = 0;

  opened(): void {
    this.streamsOpen++;
  }

  settled(outcome: Outcome): void {
    this.streamsOpen--;
    this.outcomes[outcome]++;
  }

  /** A copy. */
  snapshot(): FrontSnapshot {
    const { outcomes, streamsOpen, workerRestarts } = this;
    return { outcomes: { ...outcomes }, streamsOpen, workerRestarts };
  }
}

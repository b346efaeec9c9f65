/** What waits for the engine's next boundary, or its next rest? Commands that vLLM's engine takes in between two steps. */
import type { LoopObserver } from "./lateness/loop-observer.ts";

export interface BoundaryState {
  /** No step is open. */
  readonly idle: () => boolean;
  /** Something is left to plan. */
  readonly hasWork: () => boolean;
}

export class Boundary implements LoopObserver {
  readonly #state: BoundaryState;
  #commands: (() => void)[] = [];
  #resting: (() => void)[] = [];

  constructor(state: BoundaryState) {
    this.#state = state;
  }

  /** Runs `command` after an update and before the next plan, in order; now, if no step is open. */
  between(command: () => void): void {
    if (this.#state.idle()) command();
    else this.#commands.push(command);
  }

  /** Runs `act` once no step is open and there is nothing to plan; now, if it is so. */
  atRest(act: () => void): void {
    this.#resting.push(act);
    if (this.#state.idle()) this.rested();
  }

  /** No command waits. */
  get clear(): boolean {
    return this.#commands.length === 0;
  }

  /** An update was taken in and handed out. */
  reached(): void {
    if (this.#commands.length === 0) return;
    const commands = this.#commands;
    this.#commands = [];
    for (const command of commands) command();
  }

  /** No step is open. */
  rested(): void {
    if (this.#resting.length === 0 || this.#state.hasWork()) return;
    const resting = this.#resting;
    this.#resting = [];
    for (const act of resting) act();
  }
}

/** Queues commands until the engine's next step boundary or until it is idle. vLLM's engine also accepts commands only between two steps. */
import type { LoopObserver } from "./lateness/loop-observer.ts";

export interface BoundaryState {
  /** Returns true if no step is open. */
  readonly idle: () => boolean;
  /** Returns true if something is left to plan. */
  readonly hasWork: () => boolean;
}

export class Boundary implements LoopObserver {
  #commands: (() => void)[] = [];
  #resting: (() => void)[] = [];

  constructor(private readonly state: BoundaryState) {}

  /** Runs `command` after an update and before the next plan, in order. Runs it now if no step is open. */
  between(command: () => void): void {
    if (this.state.idle()) command();
    else this.#commands.push(command);
  }

  /** Runs `act` once no step is open and nothing is left to plan. Runs it now if that is the case. */
  atRest(act: () => void): void {
    this.#resting.push(act);
    if (this.state.idle()) this.rested();
  }

  /** True if no command waits. */
  get clear(): boolean {
    return this.#commands.length === 0;
  }

  /** Called after an update, when its rows are delivered. */
  reached(): void {
    if (this.#commands.length === 0) return;
    const commands = this.#commands;
    this.#commands = [];
    for (const command of commands) command();
  }

  /** Called when no step is open. */
  rested(): void {
    if (this.#resting.length === 0 || this.state.hasWork()) return;
    const resting = this.#resting;
    this.#resting = [];
    for (const act of resting) act();
  }
}

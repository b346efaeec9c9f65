/**
 * Tells errors that leave an engine in an unknown state from all others. A core that trapped is one; so is any error in
 * the engine's own loop, as a step may be half done. Neither may end as the error of one request or timer.
 */

import { type Clock, WrappedClock } from "../base/clock.ts";
import { CoreTrap } from "../engine/wasm/core.ts";

/** An error in the engine's loop that is not the core's. Its stack is that of `cause`. */
export class EngineBroken extends Error {
  override readonly name = "EngineBroken";

  constructor(cause: unknown) {
    super(String(cause), { cause });
    if (cause instanceof Error && cause.stack !== undefined) this.stack = cause.stack;
  }
}

/** Reports whether the error left an engine in an unknown state. */
export function isBroken(error: unknown): error is Error {
  return error instanceof CoreTrap || error instanceof WebAssembly.RuntimeError || error instanceof EngineBroken;
}

export const throwUncaught = (error: Error): void =>
  queueMicrotask(() => {
    throw error;
  });

/** The clock of engines. What their callbacks throw goes to `broke`, and not to the owner of the clock. */
export class EngineClock extends WrappedClock {
  constructor(
    whole: Clock,
    private readonly broke: (error: unknown) => void,
  ) {
    super(whole);
  }

  freeUntil(): number {
    return this.whole.freeUntil?.() ?? Number.NEGATIVE_INFINITY;
  }

  skip(us: number): void {
    this.whole.skip!(us);
  }

  protected wrapped(act: () => void): () => void {
    return () => {
      try {
        act();
      } catch (error) {
        this.broke(error);
      }
    };
  }
}

/** Options for creating an engine, including observers of its steps. */

import type { Clock } from "../base/clock.ts";
import type { CacheFeed } from "./cache-feed.ts";
import type { EngineConfig } from "./config/engine-config.ts";
import type { Lanes } from "./interface/lanes.ts";
import type { RequestMeters } from "./interface/request-meter.ts";
import type { EngineSnapshot } from "./interface/types.ts";
import type { Journal } from "./journal.ts";
import type { Lateness } from "./lateness/lateness.ts";
import type { LoopObserver } from "./lateness/loop-observer.ts";
import type { Observer } from "./observer.ts";
import type { SetupExtras } from "./setup.ts";
import type { Core } from "./wasm/core.ts";

/** Receives errors that are thrown while an engine works. */
export interface EngineFaults {
  /** The engine is in an unknown state and must not be used any more. The error is also thrown. */
  broke(error: unknown): void;
  /** A receiver threw. Its generation ends with reason error, and the engine continues. */
  receiverFailed(error: unknown): void;
}

export interface EngineOptions extends SetupExtras {
  readonly config: EngineConfig;
  readonly clock: Clock;
  /**
   * Compiled `build/core.wasm`, or `build/trtllm.wasm` if `config.trtllm` is set, or their debug builds, which check
   * invariants after each call.
   */
  readonly module: WebAssembly.Module;
  /** Number of LoRA adapters that the snapshot shows from the start. */
  readonly adapters?: number;
  /** True if steps end when the loop reaches them, with `timing: none`. False: each takes a microsecond (virtual time). */
  readonly free?: boolean;
  /** Creates the lanes that write plain tokens to streams. Absent: receivers get each token. */
  readonly lanes?: () => Lanes;
  /** Observers of its steps, called after the engine's own. */
  readonly loopObservers?: readonly LoopObserver[];
  /** Creates an observer that reads the engine's core. */
  readonly watcher?: ((core: Core) => LoopObserver) | undefined;
  /** Copies what changes in the prefix cache for another thread. Absent: nothing is copied. Needs `kvEvents`. */
  readonly cacheFeed?: CacheFeed;
  /** Observes every step and every generation. Absent: nothing is recorded. */
  readonly observer?: Observer;
  /** Counts the start and end of generations. Absent: nothing is counted. */
  readonly meters?: RequestMeters;
  /** Records the last calls of the core, to reproduce a broken invariant. */
  readonly journal?: Journal;
  /** State of sleep for the snapshot. Absent: awake. */
  readonly sleep?: Pick<EngineSnapshot, "sleep">;
  /** Absent: errors of receivers and of the core reach the caller. */
  readonly faults?: EngineFaults;
  /** Shared by engines whose lateness is counted together. */
  readonly lateness?: Lateness;
}

/** Returns true if no observer needs every single step. */
export function isAlone(options: EngineOptions): boolean {
  const { observer, meters, journal, watcher, cacheFeed, loopObservers = [] } = options;
  const noObserver = ![observer, meters, journal, watcher, cacheFeed].some((observer) => observer !== undefined);
  return noObserver && loopObservers.every(({ coasted }) => coasted !== undefined);
}

/** Effect of a pause on running generations (vLLM's `/pause?mode=`). `still`: like `keep`, but not shown to clients. */
export type PauseMode = "abort" | "wait" | "keep" | "still";

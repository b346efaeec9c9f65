/** What does an engine take when it is made, and who looks at its steps? */

import type { Clock } from "../base/clock.ts";
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

/** Where errors go that are thrown while an engine works. */
export interface EngineFaults {
  /** The engine is in an unknown state: it must not be used any more. The error is thrown, too. */
  broke(error: unknown): void;
  /** A receiver threw. Its generation is ended with reason error, and the engine continues. */
  receiverFailed(error: unknown): void;
}

export interface EngineOptions extends SetupExtras {
  readonly config: EngineConfig;
  readonly clock: Clock;
  /** Compiled `build/core.wasm`, with `config.trtllm` `build/trtllm.wasm`, or their debug builds, which check themselves after each call. */
  readonly module: WebAssembly.Module;
  /** LoRA adapters that the snapshot shows from the start, by their numbers from 1. */
  readonly adapters?: number;
  /** Free-running steps under `timing: none`; off, each lasts a microsecond (virtual time). */
  readonly free?: boolean;
  /** Makes what plain tokens take to their streams; absent: their receivers hear of each. */
  readonly lanes?: () => Lanes;
  /** Told of its steps, after those that the engine has of its own. */
  readonly loopObservers?: readonly LoopObserver[];
  /** Looks at its steps with its core. */
  readonly watcher?: ((core: Core) => LoopObserver) | undefined;
  /** Told of every step and every generation; without one nothing is noted. */
  readonly observer?: Observer;
  /** Counts generations as they begin and end; without one nothing is looked at. */
  readonly meters?: RequestMeters;
  /** Keeps what the core was told last, for the case that it breaks. */
  readonly journal?: Journal;
  /** What its snapshot says of sleep; absent: awake. */
  readonly sleep?: Pick<EngineSnapshot, "sleep">;
  /** Absent: errors of receivers and of the core reach the caller. */
  readonly faults?: EngineFaults;
  /** Shared by engines that count together. */
  readonly lateness?: Lateness;
}

/** Nobody looks at every single step. */
export function isAlone({ observer, meters, journal, watcher, loopObservers = [] }: EngineOptions): boolean {
  const nobody = ![observer, meters, journal, watcher].some((someone) => someone !== undefined);
  return nobody && loopObservers.every(({ coasted }) => coasted !== undefined);
}

/** What a pause does with those that run (vLLM's `/pause?mode=`). `still`: as `keep`, and nobody is told. */
export type PauseMode = "abort" | "wait" | "keep" | "still";

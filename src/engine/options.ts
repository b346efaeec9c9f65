/** What does an engine take when it is made, and who looks at its steps? */
import { Word } from "../../assembly/layout.ts";
import type { Clock } from "../clock.ts";
import type { EngineConfig } from "../config/types.ts";
import type { Core } from "../core/core.ts";
import type { Journal } from "./journal.ts";
import type { Lateness } from "./lateness.ts";
import type { LateWatch } from "./loop.ts";
import type { Observer } from "./observer.ts";
import type { Passages } from "./passage.ts";
import type { SetupExtras } from "./setup.ts";
import type { EngineSnapshot } from "./types.ts";

export interface EngineOptions extends SetupExtras {
  readonly config: EngineConfig;
  readonly clock: Clock;
  /** Compiled `build/core.wasm`, or the debug core, which checks itself after each call. */
  readonly module: WebAssembly.Module;
  /** LoRA adapters that the snapshot shows from the start, by their numbers from 1. */
  readonly adapters?: number;
  /** Free-running steps under `timing: none`; off, each lasts a microsecond (virtual time). */
  readonly free?: boolean;
  /** Of a step that gave tokens, or in simulated time of the last of several that ended no request. */
  readonly onStep?: (dueUs: number, startUs: number, endUs: number) => void;
  /** Told of every step and every generation; without one nothing is noted. */
  readonly observer?: Observer;
  /** Counts generations as they begin and end; without one nothing is looked at. */
  readonly passages?: Passages;
  /** Keeps what the core was told last, for the case that it breaks. */
  readonly journal?: Journal;
  /**
   * Told how loaded the engine is wherever vLLM's engine publishes it: before each plan and after each update.
   * `waiting` has the deferred in it; `kvUsage` is 0 to 1.
   */
  readonly onLoad?: (waiting: number, running: number, kvUsage: number) => void;
  /** What its snapshot says of sleep; absent: awake. */
  readonly sleep?: Pick<EngineSnapshot, "sleep">;
  /** Shared by engines that count together. */
  readonly lateness?: Lateness;
  /** Told of late steps. */
  readonly lateWatch?: LateWatch;
  /** Called before each update with the time at which it is taken in: what held copies show of a period that ends here. */
  readonly beforeUpdate?: (nowUs: number) => void;
  /** Called after each update and plan; `idle`: no step is open. */
  readonly moved?: (idle: boolean) => void;
}

/** Those of the loop's calls that are asked for. */
export function hooksOf({ onStep, beforeUpdate, moved, lateWatch }: EngineOptions) {
  return {
    ...(onStep ? { onStep } : {}),
    ...(beforeUpdate ? { beforeUpdate } : {}),
    ...(moved ? { moved } : {}),
    ...(lateWatch ? { lateWatch } : {}),
  };
}

/** Tells the load of a core whose blocks are all free yet. */
export function loadOf({ views: { words } }: Core, told: NonNullable<EngineOptions["onLoad"]>): () => void {
  const usable = words[Word.BlocksFree]!;
  return () => told(words[Word.Waiting]!, words[Word.Running]!, 1 - words[Word.BlocksFree]! / usable);
}

/** Nobody looks at every single step. */
export function isAlone({ observer, passages, journal, onLoad, beforeUpdate, moved }: EngineOptions): boolean {
  return ![observer, passages, journal, onLoad, beforeUpdate, moved].some((someone) => someone !== undefined);
}

/** What a pause does with those that run (vLLM's `/pause?mode=`). `still`: as `keep`, and nobody is told. */
export type PauseMode = "abort" | "wait" | "keep" | "still";

/** `import … from "llm-understudy-engine"` in a browser: the caller brings the core's bytes. */
import { Engine } from "./engine.ts";

export type { Cancel, Clock } from "../base/clock.ts";
export { VirtualClock } from "../base/virtual-clock.ts";
export type { FlatEngineConfig as EngineConfig } from "../engine/config/engine-config.ts";
export {
  type AdapterSnapshot,
  type EngineSnapshot,
  Finish,
  type HistogramName,
  type HistogramSnapshot,
} from "../engine/interface/types.ts";
export type { EngineParts, Step } from "./engine.ts";
export type { EngineOptions } from "./engine-option-types.ts";
export { latencies, type Percentiles, type RunLatencies } from "./latencies.ts";
export type { FinishReason, RefusalReason, Run, RunListener, RunRequest } from "./run.ts";
export { Engine };

/**
 * An engine with the defaults of `understudy serve`; `parts` has the core's bytes. Throws a TypeError for a wrong
 * option.
 */
export const createEngine = Engine.create;

/** Entry of `import … from "llm-understudy-engine"` in a browser. The caller must provide the bytes of the core. */
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
 * Creates an engine with the defaults of `understudy serve`. `parts`: the core's bytes. Throws a TypeError for a wrong
 * option.
 */
export const createEngine = Engine.create;

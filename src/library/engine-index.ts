/** `import … from "llm-understudy-engine"`: the engine and its clocks, as Node gets them. */

export type { EngineConfig } from "../config/types.ts";
export {
  type AdapterSnapshot,
  type EngineSnapshot,
  Finish,
  type HistogramName,
  type HistogramSnapshot,
} from "../engine/types.ts";
export { type Cancel, type Clock, VirtualClock, WallClock } from "../host/clock.ts";
export { Engine, type EngineParts, type Step } from "./engine.ts";
export type { EngineOptions } from "./engine-option-types.ts";
export { latencies, type Percentiles, type RunLatencies } from "./latencies.ts";
export { createEngine } from "./package-files.ts";
export type { FinishReason, RefusalReason, Run, RunListener, RunRequest } from "./run.ts";

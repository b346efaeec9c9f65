/** `import … from "llm-understudy-engine"`: the engine and its clocks, as Node gets them. */

export type { EngineConfig } from "../config/types.ts";
export type { EngineSnapshot, HistogramName, HistogramSnapshot } from "../engine/types.ts";
export { type Cancel, type Clock, VirtualClock, WallClock } from "../host/clock.ts";
export { Engine, type EngineParts, type Step } from "./engine.ts";
export { latencies, type Percentiles, type RunLatencies } from "./latencies.ts";
export type { EngineOptions } from "./option-types.ts";
export { createEngine } from "./package-files.ts";
export type { FinishReason, RefusalReason, Run, RunListener, RunRequest } from "./run.ts";

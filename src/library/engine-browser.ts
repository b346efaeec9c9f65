/** `import … from "llm-understudy-engine"` in a browser: the caller brings the core's bytes. */
import { Engine } from "./engine.ts";

export type { EngineConfig } from "../config/types.ts";
export type { EngineSnapshot, HistogramName, HistogramSnapshot } from "../engine/types.ts";
export { type Cancel, type Clock, VirtualClock } from "../host/clock.ts";
export type { EngineParts, Step } from "./engine.ts";
export { latencies, type Percentiles, type RunLatencies } from "./latencies.ts";
export type { EngineOptions } from "./option-types.ts";
export type { FinishReason, RefusalReason, Run, RunListener, RunRequest } from "./run.ts";
export { Engine };

export const createEngine = Engine.create;

/** `import … from "llm-understudy"`: the public face, as Node gets it. */

export type { EngineConfig } from "../config/types.ts";
export type { EngineSnapshot, HistogramName, HistogramSnapshot } from "../engine/types.ts";
export { type Cancel, type Clock, VirtualClock, WallClock } from "../host/clock.ts";
export { Engine, type EngineParts, type Step } from "./engine.ts";
export type { EngineOptions } from "./options.ts";
export { createEngine } from "./package-files.ts";
export type { FinishReason, RefusalReason, Run, RunListener, RunRequest } from "./run.ts";
export type { Server } from "./server.ts";
export { createServer } from "./server-child.ts";
export type { ServerOptions } from "./server-options.ts";

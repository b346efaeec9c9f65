/** `import … from "llm-understudy"` in Bun: the same face over the sources; a server runs in the process itself. */
export { Finish } from "../engine/types.ts";
export { type Cancel, type Clock, VirtualClock, WallClock } from "../host/clock.ts";
export { Engine } from "./engine.ts";
export { latencies } from "./latencies.ts";
export { createEngine } from "./package-files.ts";
export { createServer } from "./server-in-process.ts";

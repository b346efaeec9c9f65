/** Entry of `import … from "llm-understudy"` in Bun. Exports the same as in Node, but servers run in the process itself. */
import { createServer } from "./server-in-process.ts";
import { withServerOf } from "./with-server.ts";

export { type Cancel, type Clock, WallClock } from "../base/clock.ts";
export { VirtualClock } from "../base/virtual-clock.ts";
export { Finish } from "../engine/interface/types.ts";
export { Engine } from "./engine.ts";
export { startFront } from "./front-in-process.ts";
export { latencies } from "./latencies.ts";
export { createEngine } from "./package-files.ts";
export { createServer };
export const withServer = withServerOf(createServer);

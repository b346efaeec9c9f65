/** `import … from "llm-understudy"` in a browser: the engine alone, and the caller brings the core's bytes. */
export { type Cancel, type Clock, VirtualClock } from "../host/clock.ts";
export { Engine } from "./engine.ts";

import { Engine } from "./engine.ts";

export const createEngine = Engine.create;

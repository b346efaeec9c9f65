/** `import … from "llm-understudy-engine"`: the engine and its clocks, as Node gets them: what browsers get, and more. */

export { WallClock } from "../base/clock.ts";
export * from "./engine-browser.ts";
/** In place of the browser's: it finds the core's bytes by itself. */
export { createEngine } from "./package-files.ts";

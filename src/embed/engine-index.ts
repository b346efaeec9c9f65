/** Entry of `import … from "llm-understudy-engine"` in Node: all exports of the browser's entry, and more. */

export { WallClock } from "../base/clock.ts";
export * from "./engine-browser.ts";
/** Replaces the browser's `createEngine`, because Node can find the core's bytes by itself. */
export { createEngine } from "./package-files.ts";

/** `import … from "llm-understudy"`: the public face, as Node gets it. */

export * from "./engine-index.ts";
export type { ServerOptions } from "./option-types.ts";
export type { Server } from "./server.ts";
export { createServer } from "./server-child.ts";

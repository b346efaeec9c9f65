/** `import … from "llm-understudy"`: the public face, as Node gets it. */
export * from "./engine-index.ts";
export * from "./server-face.ts";

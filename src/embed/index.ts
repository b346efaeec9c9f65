/** Entry of `import … from "llm-understudy"` in Node. */
export * from "./engine-index.ts";
export * from "./server-face.ts";

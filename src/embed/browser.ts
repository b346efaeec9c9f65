/**
 * `import … from "llm-understudy"` in a browser, or in a test runner that makes Node look like one (jsdom, happy-dom):
 * there servers start as ever, in a browser they do not.
 */
export * from "./engine-browser.ts";
export * from "./server-face.ts";

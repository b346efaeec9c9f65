/**
 * Entry of `import … from "llm-understudy"` in a browser, or in a test runner that makes Node look like one (jsdom, happy-dom).
 * In such a test runner servers can start; in a browser they cannot.
 */
export * from "./engine-browser.ts";
export * from "./server-face.ts";

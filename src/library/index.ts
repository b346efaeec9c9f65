/** `import … from "llm-understudy"`: the public face, as Node gets it. */

export type { ClientRequest } from "../front/request-history.ts";
export type { AnswerError, AnswerInCode, AskedRequest, RequestMatch, TextMatch } from "./answers.ts";
export * from "./engine-index.ts";
export type { ServerOptions } from "./option-types.ts";
export type { MetricsPage, Server, ServerState, WaitOptions } from "./server.ts";
export { createServer } from "./server-child.ts";

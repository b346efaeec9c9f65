/** Exports of servers in Node, also if a test runner makes Node look like a browser. */

import type { ServerOptions } from "./option-types.ts";
import { createServer, startFront } from "./server-child.ts";
import { type TestWithServer, withServerOf } from "./with-server.ts";

export type { ClientGeneration, ClientRequest } from "../kernel/client-request.ts";
export type {
  AnswerCall,
  AnswerError,
  AnswerInCode,
  AskedRequest,
  MessageMatch,
  RequestMatch,
  TextMatch,
  TextTests,
} from "./answers.ts";
export type { Front, FrontEngine, FrontOptions } from "./front.ts";
export type { GenerationConfig, LoraAdapter, ServerOptions } from "./option-types.ts";
export type { MetricsPage, Server, ServerState, WaitOptions } from "./server.ts";
export type { ServerTest, TestWithServer } from "./with-server.ts";
export { createServer, startFront };

/**
 * For the tests of a process, whatever runs them: `test("…", withServer({ timing: "none" })(async (server) => { … }))`. They
 * share one server, which is reset between them. If a test fails, its error lists the requests that the server received.
 */
export const withServer: (options?: ServerOptions) => TestWithServer = withServerOf(createServer);

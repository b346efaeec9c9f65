/** Entry of `import … from "llm-understudy/vitest"`: a server, or a front end of vLLM, as a fixture for `test.extend`. */
import { type Front, type FrontOptions, sharedFront } from "./front.ts";
import type { ServerOptions } from "./option-types.ts";
import type { Server } from "./server.ts";
import { createServer, startFront } from "./server-child.ts";
import { amend, sharedServer } from "./with-server.ts";

/** The part of Vitest's test context that the fixture reads. */
export interface VitestContext {
  /** The running test. */
  readonly task: VitestTask;
}

/** The part of a test that the fixture reads. */
export interface VitestTask {
  /** Result of the test so far. */
  readonly result?: VitestResult | undefined;
}

/** The part of a test's result that the fixture reads. */
export interface VitestResult {
  /** "fail" if the test has failed. */
  readonly state?: string;
  /** Errors of the test. */
  readonly errors?: VitestError[] | undefined;
}

/** An error in Vitest's form. */
export interface VitestError {
  /** Message of the error. */
  message: string;
  /** Stack trace of the error. */
  stack?: string | undefined;
}

/**
 * Makes a fixture: `test.extend({ server: serverFixture({ timing: "none" }) })`. All tests of a worker with these options share
 * one server, which is reset between them. If a test fails, its error lists the requests that the server received.
 */
export function serverFixture(options: ServerOptions = {}) {
  // Destructured, because Vitest reads the names of the parameters from the function's source text.
  return async ({ task }: VitestContext, use: (server: Server) => Promise<void>): Promise<void> => {
    await sharedServer(createServer, options).lend(async (server) => {
      await use(server);
      const error = task.result?.errors?.[0];
      if (error === undefined) return;
      amend(error, await server.timeline().catch(({ message }: Error) => message));
    });
  };
}

/** Characters of a front end's output that the error of a failed test gets. */
const LAST_WORDS = 2000;

/**
 * Makes a fixture: `test.extend({ front: frontFixture({ command: ["vllm-rs", "serve", "/models/small"] }) })`. All tests of a
 * worker with these options share one front end and its engine, which comes to rest between them. If a test fails, its error
 * ends with the newest output of the front end.
 */
export function frontFixture(options: FrontOptions) {
  // Destructured, because Vitest reads the names of the parameters from the function's source text.
  return async ({ task }: VitestContext, use: (front: Front) => Promise<void>): Promise<void> => {
    await sharedFront(startFront, options).lend(async (front) => {
      await use(front);
      const error = task.result?.errors?.[0];
      if (error === undefined) return;
      const output = await front.output().catch(({ message }: Error) => message);
      amend(error, `the front end printed:\n${output.slice(-LAST_WORDS)}`);
    });
  };
}

/** `import … from "llm-understudy/vitest"`: a server as a fixture of `test.extend`. */
import type { ServerOptions } from "./option-types.ts";
import type { Server } from "./server.ts";
import { createServer } from "./server-child.ts";
import { amend, sharedServer } from "./with-server.ts";

/** The part of Vitest's own context that a fixture looks at. */
export interface VitestContext {
  /** The test that runs. */
  readonly task: VitestTask;
}

/** The part of a test that a fixture looks at. */
export interface VitestTask {
  /** What has become of it so far. */
  readonly result?: VitestResult | undefined;
}

/** The part of a test's result that a fixture looks at. */
export interface VitestResult {
  /** "fail" where it has failed. */
  readonly state?: string;
  /** Why. */
  readonly errors?: VitestError[] | undefined;
}

/** An error as Vitest shows it. */
export interface VitestError {
  /** In words. */
  message: string;
  /** With its place. */
  stack?: string | undefined;
}

/**
 * A fixture: `test.extend({ server: serverFixture({ timing: "none" }) })`. All tests of a worker with these options share
 * one server, which is reset between them; where a test fails, its error tells what the server saw.
 */
export function serverFixture(options: ServerOptions = {}) {
  // Vitest reads the names that it gives from the text of the function.
  return async ({ task }: VitestContext, use: (server: Server) => Promise<void>): Promise<void> => {
    await sharedServer(createServer, options).lend(async (server) => {
      await use(server);
      const error = task.result?.errors?.[0];
      if (error === undefined) return;
      amend(error, await server.timeline().catch(({ message }: Error) => message));
    });
  };
}

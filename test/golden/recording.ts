/**
 * Defines the interface that the two formats of recordings share: rows, and a runner that carries out each row and returns
 * our row.
 */
import type { RequestPath } from "./request-path.ts";
import { Runner } from "./runner.ts";
import { LogRunner, type Scenario } from "./scheduler-log.ts";
import type { Row, Trace } from "./trace.ts";

export interface Recording {
  readonly rows: Row[];
  /**
   * Starts a fresh core. `path`: the way of requests to it, by default none. Throws if the recording contains an option or row
   * that we do not support.
   */
  start(module: WebAssembly.Module, path?: RequestPath): { run(row: Row): Row };
}

export const ofTrace = (trace: Trace): Recording => ({
  rows: trace.rows,
  start: (module, path) => new Runner(trace, module, path),
});

export const ofScenario = (scenario: Scenario): Recording => ({
  rows: scenario.log,
  start: (module, path) => new LogRunner(scenario, module, path),
});

/** What do the two formats of recordings have in common? Rows, and somebody who carries each out and says what ours would be. */
import { Runner } from "./runner.ts";
import { LogRunner, type Scenario } from "./scheduler-log.ts";
import type { Row, Trace } from "./trace.ts";

export interface Recording {
  readonly rows: Row[];
  /** A fresh core; throws when the recording asks for what we do not know. */
  start(module: WebAssembly.Module): { run(row: Row): Row };
}

export const ofTrace = (trace: Trace): Recording => ({
  rows: trace.rows,
  start: (module) => new Runner(trace, module),
});

export const ofScenario = (scenario: Scenario): Recording => ({
  rows: scenario.log,
  start: (module) => new LogRunner(scenario, module),
});

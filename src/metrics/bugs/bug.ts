/**
 * What is a bug mode? A defect that a real engine has or had, brought back on purpose in families of ours, so that whoever
 * writes checks for metrics has input that is known to be bad. `table.ts` has them all.
 */

import type { EngineSnapshot } from "../../engine/interface/types.ts";
import type { MetricsSource } from "../config/metrics-source.ts";
import type { Row } from "../rows/table.ts";

/** What finding it takes, beside `understudy check` and the page: the words of docs/bug-modes.md. */
export type Takes = "one scrape" | "two scrapes" | "rest" | "clean, rest";

/** Numbers of an engine that do not move any more once nothing runs or waits. */
export interface Sticks {
  readonly fields: readonly (keyof EngineSnapshot & string)[];
  /** How the last request has to end for that; from outside: its client left, or the front found a stop string. */
  readonly after: "an end from outside" | "any end";
}

export interface Bug {
  /** Where it is spoken of. */
  readonly thread: string;
  /** What the real one did. */
  readonly there: string;
  /** What it is here. */
  readonly here: string;
  /** Families of ours in which the bug shows; none: in all. */
  readonly families: readonly string[];
  /** Laws of `src/tools/check/laws/` that find it. */
  readonly finds: Readonly<Record<string, Takes>>;
  /** What has to happen to the server. */
  readonly load: string;
  /** A family's row as it is with the defect. */
  readonly row?: (row: Row) => Row;
  readonly sticks?: Sticks;
  /** Each process shows its own numbers in place of everybody's. */
  readonly alone?: true;
  /** What is missing for it to show, if so: the end of a sentence that begins with "needs". */
  readonly lacks?: (config: MetricsSource) => string | undefined;
}

/**
 * Types of bug modes. A bug mode reproduces in our metrics a defect that a real engine has or had. So authors of checks have
 * pages that are known to be wrong. `table.ts` lists the modes.
 */

import type { EngineSnapshot } from "../../engine/interface/types.ts";
import type { MetricsSource } from "../config/metrics-source.ts";
import type { Row } from "../rows/table.ts";

/** Requirements for detecting the bug, besides `understudy check` and the page, in the words of docs/reference/bug-modes.md. */
export type DetectionNeed = "one scrape" | "two scrapes" | "rest" | "clean, rest";

/** Numbers of an engine that keep their last value once no request runs or waits. */
export interface StickyFields {
  readonly fields: readonly (keyof EngineSnapshot & string)[];
  /** End of the last request that the bug needs. "From outside": its client disconnects, or the front end finds a stop string. */
  readonly after: "an end from outside" | "any end";
}

export interface Bug {
  /** The thread that documents the bug. */
  readonly thread: string;
  /** The behaviour of the real server. */
  readonly there: string;
  /** The behaviour of Understudy instead. */
  readonly here: string;
  /** Families that show the bug. Empty: all families. */
  readonly families: readonly string[];
  /** Laws of `src/tools/check/laws/` that detect it. */
  readonly finds: Readonly<Record<string, DetectionNeed>>;
  /** Requests that make it visible. */
  readonly load: string;
  /** Returns a family's row with the defect. */
  readonly row?: (row: Row) => Row;
  readonly sticks?: StickyFields;
  /** True if each process shows only its own numbers. */
  readonly alone?: true;
  /** Returns a missing option without which the bug cannot show, as the end of a sentence that begins with "needs". */
  readonly lacks?: (config: MetricsSource) => string | undefined;
}

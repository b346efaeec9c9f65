/** What is kept of a broken invariant? The core's words, the configuration and the last counters, in a file beside the process. */
import { writeFileSync } from "node:fs";
import type { ServeConfig } from "../config/types.ts";
import type { EngineSnapshot } from "../engine/types.ts";

/** Writes the file into the working directory; its name. Keys never enter it. */
export function writeCrash({ engine }: ServeConfig, error: Error, snapshots: readonly EngineSnapshot[]): string {
  const file = `understudy-crash-${process.pid}.json`;
  writeFileSync(file, JSON.stringify({ error: error.message, stack: error.stack, engine, snapshots }, null, 1));
  return file;
}

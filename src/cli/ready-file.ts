/** How does another program learn that a server takes requests, and where? By a file that is complete, or not there. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { tried } from "./out-file.ts";

/** Writes JSON under a name beside it, and then gives it its own. Throws a TraceError where it cannot. */
export function writeReady(path: string, json: object): void {
  const unready = `${path}.${process.pid}`;
  tried(path, () => {
    writeFileSync(unready, `${JSON.stringify(json)}\n`);
    renameSync(unready, path);
  });
}

/** What an earlier run has left would speak for this one. */
export const takeBackReady = (path: string): void => tried(path, () => rmSync(path, { force: true }));

/** Writes the file of --ready-file, by which other programs learn that a server accepts requests. It is never partly written. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { tried } from "./out-file.ts";

/** Writes JSON to a temporary file and renames it to `path`. Throws a TraceError if it cannot be written. */
export function writeReady(path: string, json: object): void {
  const unready = `${path}.${process.pid}`;
  tried(path, () => {
    writeFileSync(unready, `${JSON.stringify(json)}\n`);
    renameSync(unready, path);
  });
}

/** Removes the file of an earlier run, which would report this server as ready too early. */
export const takeBackReady = (path: string): void => tried(path, () => rmSync(path, { force: true }));

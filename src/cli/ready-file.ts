/**
 * Writes the file of --ready-file, which tells other programs that a server accepts requests. Other programs never see the file
 * partly written.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { tried } from "./out-file.ts";

/** Writes JSON to a temporary file and renames that file to `path`. Throws a TraceError if the file cannot be written. */
export function writeReady(path: string, json: object): void {
  const unready = `${path}.${process.pid}`;
  tried(path, () => {
    writeFileSync(unready, `${JSON.stringify(json)}\n`);
    renameSync(unready, path);
  });
}

/** Removes the file that an earlier run left, because it would report this server as ready too early. */
export const takeBackReady = (path: string): void => tried(path, () => rmSync(path, { force: true }));

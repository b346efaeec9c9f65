/**
 * Writes the file of --ready-file, which tells other programs that a server accepts requests. Other programs never see the file
 * partly written.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { unwritable } from "../truth/log.ts";
import { tried } from "./out-file.ts";

/** Writes JSON to a temporary file and renames that file to `path`. Throws a TraceError if the file cannot be written. */
export function writeReady(path: string, json: object): void {
  const unready = `${path}.${process.pid}`;
  tried(path, () => {
    writeFileSync(unready, `${JSON.stringify(json)}\n`);
    renameSync(unready, path);
  });
}

/**
 * Removes the file that an earlier run left, because it would report this server as ready too early. Returns an error message
 * if the file cannot be written, else undefined. `path`: undefined without `--ready-file`.
 */
export function takeBackReady(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const why = unwritable(path);
  if (why !== undefined) return `--ready-file ${path}: ${why}`;
  tried(path, () => rmSync(path, { force: true }));
  return undefined;
}

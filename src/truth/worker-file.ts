/**
 * Log files of several worker processes. Each process writes its own file. If one is killed, its unwritten rows are
 * lost, and a surviving process closes the file with the counts that the metrics had of it.
 */
import { appendFileSync, closeSync, fstatSync, ftruncateSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import type { DiedLine } from "./schema.ts";

/** Upper limit of a line's length. The longest row has about 33,000 numbers. */
const LINE_BYTES = 1 << 20;

/** Returns the file of a worker: for worker 1, `truth.jsonl` becomes `truth.w1.jsonl`. */
export function fileOfWorker(file: string, worker: number): string {
  const extension = extname(file);
  return join(dirname(file), `${basename(file, extension)}.w${worker}${extension}`);
}

/**
 * Removes an incomplete last line and appends the line of the killed process. Does nothing if the path is not a regular
 * file. Throws errors of the file system.
 */
export function closeDead(file: string, died: DiedLine): void {
  if (!statSync(file).isFile()) return;
  cutTornLine(file);
  appendFileSync(file, `${JSON.stringify(died)}\n`);
}

function cutTornLine(file: string): void {
  const fd = openSync(file, "r+");
  try {
    const { size } = fstatSync(fd);
    const tail = Buffer.alloc(Math.min(size, LINE_BYTES));
    const read = readSync(fd, tail, 0, tail.length, size - tail.length);
    const whole = tail.subarray(0, read).lastIndexOf(0x0a) + 1;
    if (whole > 0 || size <= LINE_BYTES) ftruncateSync(fd, size - read + whole);
  } finally {
    closeSync(fd);
  }
}

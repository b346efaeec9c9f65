/**
 * What of the truth log when several processes serve? Each writes a file of its own. One that is killed takes the rows
 * with it that were not written yet; whoever survives it closes the file with what had been counted of it.
 */
import { appendFileSync, closeSync, fstatSync, ftruncateSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import type { DiedLine } from "./schema.ts";

/** No line is longer: the longest row has some 33,000 numbers. */
const LINE_BYTES = 1 << 20;

/** `truth.jsonl` of worker 1 is `truth.w1.jsonl`. */
export function fileOfWorker(file: string, worker: number): string {
  const extension = extname(file);
  return join(dirname(file), `${basename(file, extension)}.w${worker}${extension}`);
}

/** Takes a torn last line off and adds the line; does nothing to what is no regular file. Throws as the system does. */
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

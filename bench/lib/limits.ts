/** Reads the number of files that this process, and the processes it starts, may have open. */
import { readFileSync } from "node:fs";

export function openFileLimit(): number {
  const line = /Max open files\s+(\d+|unlimited)/.exec(readFileSync("/proc/self/limits", "latin1"))![1]!;
  return line === "unlimited" ? Number.POSITIVE_INFINITY : Number(line);
}

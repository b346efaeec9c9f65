/**
 * Limits the connections of this process, because each needs a file descriptor. Some descriptors are reserved for the process
 * itself.
 */
import { readFileSync } from "node:fs";
import { wallUs } from "./clock.ts";

/**
 * Number of descriptors reserved for files, listeners and threads. If a thread gets no descriptor, Bun 1.4.5 exits the whole
 * process ("bun ran out of file descriptors").
 */
export const OWN_DESCRIPTORS = 64;

const TOLD_EVERY_US = 60_000_000;

/** Returns the limit of open files of this process, or null if it is unknown or unlimited. */
export function openFileLimit(): number | null {
  try {
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? null : Number(line);
  } catch {
    return null;
  }
}

/**
 * Returns the most open connections for a limit of open files: the limit minus `OWN_DESCRIPTORS`, but at least a quarter of the
 * limit.
 */
export function mostConnections(limit: number | null): number {
  return limit === null ? Number.POSITIVE_INFINITY : Math.max(limit - OWN_DESCRIPTORS, Math.floor(limit / 4));
}

/** Number of open connections of all servers of this process. */
let open = 0;
let most: number | null = null;

let toldUs = Number.NEGATIVE_INFINITY;

/**
 * Counts a new connection. Returns false if too many connections are open; the caller must then close the new one. Prints a
 * warning in that case, at most once a minute.
 */
export function takeConnection(): boolean {
  most ??= mostConnections(openFileLimit());
  if (open < most) {
    open++;
    return true;
  }
  const nowUs = wallUs();
  if (nowUs > toldUs + TOLD_EVERY_US) {
    toldUs = nowUs;
    console.error(
      `understudy: ${open} connections are open, as many as ulimit -n (${openFileLimit()}) allows; new connections are closed`,
    );
  }
  return false;
}

/** Counts a closed connection. */
export function giveConnection(): void {
  open--;
}

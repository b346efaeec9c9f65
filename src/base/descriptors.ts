/** Limits the connections of this process by its file descriptors. Some descriptors are reserved for the process itself. */
import { readFileSync } from "node:fs";
import { wallUs } from "./clock.ts";

/**
 * Descriptors reserved for files, listeners and threads. If a thread gets no descriptor, Bun 1.4.5 exits the whole
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

/** Returns the maximum of open connections: the limit minus the reserve, but at least a quarter of the limit. */
export function mostConnections(limit: number | null): number {
  return limit === null ? Number.POSITIVE_INFINITY : Math.max(limit - OWN_DESCRIPTORS, Math.floor(limit / 4));
}

/** Number of open connections of all servers of this process. */
let open = 0;
let most: number | null = null;

let toldUs = Number.NEGATIVE_INFINITY;

/**
 * Counts a new connection. Returns false if there are too many and the caller must close it. Prints a warning, at most once a
 * minute.
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

/** How many connections may this process hold? One is a descriptor, and some are kept for what the process opens itself. */
import { readFileSync } from "node:fs";
import { wallUs } from "./clock.ts";

/**
 * Kept for files, listeners and threads, which may start at any time: where a thread finds none, Bun 1.4.5 ends the whole
 * process ("bun ran out of file descriptors").
 */
export const OWN_DESCRIPTORS = 64;

const TOLD_EVERY_US = 60_000_000;

/** How many files this process may open, or null where the system does not say it. */
export function openFileLimit(): number | null {
  try {
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? null : Number(line);
  } catch {
    return null;
  }
}

/** Connections that may be open at once; a quarter of the descriptors where there are hardly any. */
export function mostConnections(limit: number | null): number {
  return limit === null ? Number.POSITIVE_INFINITY : Math.max(limit - OWN_DESCRIPTORS, Math.floor(limit / 4));
}

/** Connections of all servers of this process. */
let open = 0;
let most: number | null = null;

let toldUs = Number.NEGATIVE_INFINITY;

/**
 * A connection has come: false where there are too many, and it has to be closed at once. Says so on the terminal, once a
 * minute at most.
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
      `understudy: ${open} connections are open, as many as ulimit -n (${openFileLimit()}) allows: others are closed as they come`,
    );
  }
  return false;
}

/** One that was taken is closed. */
export function giveConnection(): void {
  open--;
}

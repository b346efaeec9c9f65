/** Lowers the priority of threads for prompts and files, so that threads that write streams run first on a busy machine. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

const NICE = 10;

/**
 * Lowers the priority of the calling thread. Only Linux has a nice value per thread; on other systems the function has no
 * effect.
 */
export function lowerPriority(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICE);
  } catch {
    // No /proc (a container may hide it): the thread runs at normal priority.
  }
}

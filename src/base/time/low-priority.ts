/** Which threads wait for others on a busy machine? Streams are due to the microsecond, prompts and files are not. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

const NICE = 10;

/**
 * Lowers the priority of the calling thread. Linux gives each thread its own nice value; elsewhere there is no such
 * thing, and nothing is done.
 */
export function lowerPriority(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICE);
  } catch {
    // No /proc (a container may hide it): the thread runs at normal priority.
  }
}

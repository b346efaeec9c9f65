/**
 * Lowers the priority of threads that process prompts and files. On a busy machine, threads that write streams then run first.
 */
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
    // Without /proc (a container may hide it), the thread keeps its normal priority.
  }
}

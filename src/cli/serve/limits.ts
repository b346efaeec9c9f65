/** How many files may this process open? */
import { readFileSync } from "node:fs";

/** The soft limit, or null where the system does not say it. */
export function openFileLimit(): number | null {
  try {
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? null : Number(line);
  } catch {
    return null;
  }
}

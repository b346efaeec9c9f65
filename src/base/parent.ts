/** Notices the end of the parent process, because the system then gives this process another parent id. */
import type { Clock } from "./clock.ts";

const LOOK_US = 250_000;

/** Calls `act` once, after the parent process has ended. */
export function whenOrphaned(clock: Pick<Clock, "now" | "at">, act: () => void): void {
  const parent = process.ppid;
  const look = (): void => {
    if (process.ppid !== parent) act();
    else clock.at(clock.now() + LOOK_US, look);
  };
  look();
}

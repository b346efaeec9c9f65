/** Is whoever started this process still there? Its number changes when it goes away, however that happens. */
import type { Clock } from "./clock.ts";

const LOOK_US = 250_000;

/** `act` is called once. */
export function whenOrphaned(clock: Pick<Clock, "now" | "at">, act: () => void): void {
  const parent = process.ppid;
  const look = (): void => {
    if (process.ppid !== parent) act();
    else clock.at(clock.now() + LOOK_US, look);
  };
  look();
}

/**
 * Does preparations of a server, such as loading libraries, while the server is idle. The start is shorter without these
 * preparations, and a request that needs one does not wait for it.
 */
import type { Cancel, Clock } from "../clock.ts";
import { logUnexpected } from "../unexpected.ts";

/** Microseconds before the first check whether the server is idle, and between two checks. */
const LOOK_US = 100_000;

/**
 * Runs the pieces of work in order, each in its own turn of the event loop while the server is idle. If a piece fails, the
 * error is logged, and a later request does its work. Returns a function that drops the pieces that have not begun.
 */
export function workWhenIdle(
  clock: Pick<Clock, "now" | "at" | "about">,
  isIdle: () => boolean,
  pieces: readonly (() => unknown)[],
): Cancel {
  const left = [...pieces];
  let cancel: Cancel = () => {};
  const look = async () => {
    const piece = isIdle() ? left.shift() : undefined;
    try {
      await piece?.();
    } catch (error) {
      logUnexpected("work in idle time failed; it is done when it is needed", error);
    }
    order();
  };
  const order = () => {
    const dueUs = clock.now() + LOOK_US;
    if (left.length > 0) cancel = clock.about?.(dueUs, look) ?? clock.at(dueUs, look);
  };
  order();
  return () => {
    left.length = 0;
    cancel();
  };
}

/**
 * Does work that a server needs later, while the server has nothing else to do. A start then does only what the first
 * request needs, and the request that needs the rest does not wait for it.
 */
import type { Cancel, Clock } from "../clock.ts";
import { logUnexpected } from "../unexpected.ts";

/** Time after the start, and after each piece, before the next look whether the server is idle. */
const LOOK_US = 100_000;

/**
 * Does the pieces in their order, each in a turn of its own in which the server is idle. A piece that fails is logged: its
 * work is then done when it is needed. Returns a function that leaves out the pieces that have not begun.
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

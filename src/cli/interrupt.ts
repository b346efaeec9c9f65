/** Handles Ctrl-C while a command measures. The first Ctrl-C ends the run with the results so far, the second exits at once. */
import { wallUs } from "../base/clock.ts";

const INTERRUPTED = 130;
/**
 * Microseconds within which a second signal counts as the same Ctrl-C, because the launcher (or npx) passes on its own copy of
 * the signal.
 */
const SAME_SIGNAL_US = 500_000;

/**
 * Calls `stop` on the first signal. `stop` must end the run with the results so far. Returns a function that removes the
 * listener.
 */
export function onInterrupt(stop: () => void): () => void {
  let sinceUs: number | null = null;
  const listener = () => {
    if (sinceUs !== null && wallUs() - sinceUs > SAME_SIGNAL_US) process.exit(INTERRUPTED);
    if (sinceUs !== null) return;
    sinceUs = wallUs();
    stop();
  };
  process.on("SIGINT", listener);
  process.on("SIGTERM", listener);
  return () => {
    process.off("SIGINT", listener);
    process.off("SIGTERM", listener);
  };
}

/** What does Ctrl-C mean while a command measures? The first one asks for what there is, the second one for an end at once. */
import { wallUs } from "../base/clock.ts";

const INTERRUPTED = 130;
/** The terminal sends Ctrl-C to everyone; the launcher (npx, too) then passes on its own, which is the same key press. */
const SAME_SIGNAL_US = 500_000;

/** `stop` ends the run with what was seen so far. Returns what takes the listener off again. */
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

/** Shows the progress of a replay as one line on a terminal, rewritten a few times a second. */
import { wallUs } from "../../base/clock.ts";
import type { Trace } from "../../workloads/trace.ts";
import { TerminalLine } from "../terminal-line.ts";

/** Numbers of requests since the start of the replay. */
export interface ProgressCounts {
  readonly arrived: number;
  readonly finished: number;
}

const EVERY_US = 200_000;
const WIDTH = 24;

/**
 * A bar on the terminal that shows the finished share of the run, from 0 to 1. If the share is null it is unknown, and no bar
 * is drawn.
 */
class ProgressBar {
  #nextUs = wallUs() + EVERY_US;

  constructor(
    readonly line: TerminalLine,
    readonly share: (atUs: number, counts: ProgressCounts) => number | null,
  ) {}

  readonly show = (atUs: number, counts: ProgressCounts): void => {
    const nowUs = wallUs();
    if (nowUs < this.#nextUs) return;
    this.#nextUs = nowUs + EVERY_US;
    const share = this.share(atUs, counts);
    const filled = Math.round((share ?? 0) * WIDTH);
    const bar =
      share === null ? "" : `[${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ${Math.floor(share * 100)} %  `;
    const time = (atUs / 1e6).toFixed(1);
    this.line.show(`${bar}${counts.finished.toLocaleString("en-US")} finished  ${time} s simulated`);
  };

  clear(): void {
    this.line.clear();
  }
}

/** Returns a bar for a run. The bar shows the finished share of the simulated time or of the requests, whichever is larger. */
export function progressOf(trace: Trace, limit: number, untilUs: number): ProgressBar {
  return new ProgressBar(new TerminalLine(), (atUs, { arrived, finished }) => {
    const read = trace.bytes > 0 ? trace.bytesRead() / trace.bytes : 0;
    const all = Math.min(limit, trace.total ?? (read > 0 ? arrived / read : Number.POSITIVE_INFINITY));
    const share = Math.max(finished / all, atUs / untilUs);
    return share > 0 ? Math.min(1, share) : null;
  });
}

/** How far is the replay? One line on a terminal, rewritten a few times a second. */
import { wallUs } from "../../base/clock.ts";
import type { Trace } from "../../workloads/trace.ts";
import { TerminalLine } from "../terminal-line.ts";

/** Requests so far. */
export interface ShownCounts {
  readonly arrived: number;
  readonly finished: number;
}

const EVERY_US = 200_000;
const WIDTH = 24;

/** `share` is 0 to 1, or null where nobody knows. */
class ProgressBar {
  #nextUs = wallUs() + EVERY_US;

  constructor(
    readonly line: TerminalLine,
    readonly share: (atUs: number, counts: ShownCounts) => number | null,
  ) {}

  readonly show = (atUs: number, counts: ShownCounts): void => {
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

/** How far a run is: by its time or by its requests, whichever is further. */
export function progressOf(trace: Trace, limit: number, untilUs: number): ProgressBar {
  return new ProgressBar(new TerminalLine(), (atUs, { arrived, finished }) => {
    const read = trace.bytes > 0 ? trace.bytesRead() / trace.bytes : 0;
    const all = Math.min(limit, trace.total ?? (read > 0 ? arrived / read : Number.POSITIVE_INFINITY));
    const share = Math.max(finished / all, atUs / untilUs);
    return share > 0 ? Math.min(1, share) : null;
  });
}

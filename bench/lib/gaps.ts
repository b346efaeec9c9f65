/**
 * Judges how much longer the longest gap of streams becomes through another client. The bound is 10 ms, or 25 ms if a garbage
 * collection explains the excess.
 */
import { bar, figure } from "./report.ts";

const GAP_BAR_MS = 10;
const COLLECTION_BAR_MS = 25;
const MORE_RUNS = 2;

/** Times in milliseconds. */
export interface Gaps {
  readonly gapMs: number;
  /** The longest gap without the other client. */
  readonly controlMs: number;
  /** The longest pause by a garbage collection. */
  readonly collectionMs: number;
}

const beyond = ({ gapMs, controlMs }: Gaps) => gapMs - controlMs;
/** Reports whether a garbage collection explains why the gap exceeds its bound. */
const isCollected = (gaps: Gaps) => beyond(gaps) > GAP_BAR_MS && beyond(gaps) - gaps.collectionMs <= GAP_BAR_MS;
const barOf = (gaps: Gaps) => (isCollected(gaps) ? COLLECTION_BAR_MS : GAP_BAR_MS);

/** Measures twice more if the first run exceeds its bound. Returns the additional runs. */
export async function moreRuns(first: Gaps, measure: () => Promise<Gaps>): Promise<Gaps[]> {
  const runs: Gaps[] = [];
  while (beyond(first) > barOf(first) && runs.length < MORE_RUNS) {
    const { gapMs, controlMs, collectionMs } = await measure();
    runs.push({ gapMs, controlMs, collectionMs });
  }
  return runs;
}

/** Returns a line with the verdict on the median of the runs. */
export function judged(name: string, runs: readonly Gaps[]): string {
  const sorted = [...runs].sort((a, b) => beyond(a) - beyond(b));
  const median = sorted[sorted.length >> 1]!;
  const why = isCollected(median) ? `, with a garbage collection of ${median.collectionMs.toFixed(1)} ms` : "";
  const note = sorted.length > 1 ? `; median of ${sorted.map((run) => figure(beyond(run))).join(", ")}` : "";
  return bar(`${name}${why}`, beyond(median), barOf(median), "ms") + note;
}

/**
 * How much longer is the longest gap of streams beside something than without it? A gap of 10 ms more holds, or of 25 where a
 * collection of garbage is what it is longer by.
 */
import { bar, figure } from "./report.ts";

const GAP_BAR_MS = 10;
const COLLECTION_BAR_MS = 25;
const MORE_RUNS = 2;

/** Milliseconds. */
export interface Gaps {
  readonly gapMs: number;
  /** The gap of streams that nothing is beside. */
  readonly controlMs: number;
  /** The longest pause of a collection of garbage. */
  readonly collectionMs: number;
}

const beyond = ({ gapMs, controlMs }: Gaps) => gapMs - controlMs;
const isCollected = (one: Gaps) => beyond(one) > GAP_BAR_MS && beyond(one) - one.collectionMs <= GAP_BAR_MS;
const barOf = (one: Gaps) => (isCollected(one) ? COLLECTION_BAR_MS : GAP_BAR_MS);

/** What more runs gave, where the first one missed. */
export async function moreRuns(first: Gaps, measure: () => Promise<Gaps>): Promise<Gaps[]> {
  const runs: Gaps[] = [];
  while (beyond(first) > barOf(first) && runs.length < MORE_RUNS) {
    const { gapMs, controlMs, collectionMs } = await measure();
    runs.push({ gapMs, controlMs, collectionMs });
  }
  return runs;
}

/** A line that says whether the middle one of the runs holds. */
export function judged(name: string, runs: readonly Gaps[]): string {
  const sorted = [...runs].sort((a, b) => beyond(a) - beyond(b));
  const one = sorted[sorted.length >> 1]!;
  const why = isCollected(one) ? `, a collection of ${one.collectionMs.toFixed(1)} ms in it` : "";
  const note = sorted.length > 1 ? `; the middle one of ${sorted.map((run) => figure(beyond(run))).join(", ")}` : "";
  return bar(`${name}${why}`, beyond(one), barOf(one), "ms") + note;
}

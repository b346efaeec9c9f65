/**
 * Measures and judges how much longer the longest gap of streams becomes through another client. The bound is 10 ms, or 25 ms
 * if a garbage collection explains the excess.
 */

import { bar, figure, note, progress, text } from "./bench.ts";
import { besideStreams, longestGapMs, type ReaderOptions } from "./client.ts";
import type { Collections } from "./collections.ts";
import type { RunningServer } from "./servers.ts";

const GAP_BAR_MS = 10;
const COLLECTION_BAR_MS = 25;
const MORE_RUNS = 2;
/** Time for which streams are read before the other client's request, and after its answer. */
export const AROUND_MS = 700;

/** Times in milliseconds. */
export interface Gaps {
  readonly gapMs: number;
  /** The longest gap without the other client. */
  readonly controlMs: number;
  /** The longest pause by a garbage collection. */
  readonly collectionMs: number;
}

/** A server, the log of its garbage collections, and the streams whose gaps are measured. */
export interface StreamingServer {
  readonly server: RunningServer;
  readonly collections: Collections;
  readonly streams: Omit<ReaderOptions, "port">;
}

/** Reads streams for `durationMs` and runs `act` meanwhile. `controlMs`: the longest gap of other streams. */
export async function gapsBeside<T>(
  { server, collections, streams }: StreamingServer,
  durationMs: number,
  controlMs: Promise<number> | number,
  act: () => Promise<T>,
): Promise<Gaps & { readonly mostMb: number; readonly acted: T }> {
  collections.longestMs(); // leaves out the pauses until now
  const reading = besideStreams(server, { ...streams, durationMs, gaps: true }, AROUND_MS, act);
  const [{ streams: read, mostMb, acted }, control] = await Promise.all([reading, controlMs]);
  return { gapMs: longestGapMs(read), controlMs: control, collectionMs: collections.longestMs(), mostMb, acted };
}

/**
 * Measures the rows whose name contains one of the words of `--rows`. Measures those that exceed their bound twice more, and
 * returns the additional runs by name.
 */
export async function measureRows<
  Row extends { readonly name: string },
  Found extends Gaps & { readonly name: string },
>(
  bench: string,
  rows: readonly Row[],
  measure: (row: Row, isRepeated: boolean) => Promise<Found>,
): Promise<{ readonly found: Found[]; readonly again: Record<string, Gaps[]> }> {
  const words = text("--rows", "").split(";");
  const found: Found[] = [];
  const again: Record<string, Gaps[]> = {};
  for (const row of rows.filter(({ name }) => words.some((word) => name.includes(word)))) {
    progress(`${bench}: ${row.name}`);
    const first = await measure(row, false);
    found.push(first);
    while (beyond(first) > barOf(first) && (again[row.name]?.length ?? 0) < MORE_RUNS) {
      const { gapMs, controlMs, collectionMs } = await measure(row, true);
      again[row.name] = [...(again[row.name] ?? []), { gapMs, controlMs, collectionMs }];
    }
  }
  return { found, again };
}

const beyond = ({ gapMs, controlMs }: Gaps) => gapMs - controlMs;
/** Reports whether a garbage collection explains why the gap exceeds its bound. */
const isCollected = (gaps: Gaps) => beyond(gaps) > GAP_BAR_MS && beyond(gaps) - gaps.collectionMs <= GAP_BAR_MS;
const barOf = (gaps: Gaps) => (isCollected(gaps) ? COLLECTION_BAR_MS : GAP_BAR_MS);

/** Prints whether the median of the row's runs keeps its bound. */
export function noteGap(name: string, first: Gaps, more: readonly Gaps[] = []): void {
  const sorted = [first, ...more].sort((a, b) => beyond(a) - beyond(b));
  const median = sorted[sorted.length >> 1]!;
  const why = isCollected(median) ? `, with a garbage collection of ${median.collectionMs.toFixed(1)} ms` : "";
  const runs = sorted.length > 1 ? `; median of ${sorted.map((run) => figure(beyond(run))).join(", ")}` : "";
  note(bar(`${name}${why}`, beyond(median), barOf(median), "ms") + runs);
}

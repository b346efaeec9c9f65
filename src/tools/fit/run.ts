/** What does a benchmark say of an engine? Requests with their times, or means alone. Types only; times in microseconds. */

/** One answered request. Times count from any moment, the same for a whole run. */
export interface Answered {
  readonly sentUs: number;
  readonly firstUs: number;
  readonly lastUs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time of each token after the first; null: only the last is known. */
  readonly laterUs: readonly number[] | null;
}

export interface FitRun {
  /** For messages: the file, and the line where it has several. */
  readonly source: string;
  /** Who wrote it, and in which way. */
  readonly format: string;
  /** In order of sending; null: the file has means alone. */
  readonly requests: readonly Answered[] | null;
  /** Most requests at once in a closed loop; null: an open one. */
  readonly concurrency: number | null;
  readonly completed: number;
  readonly durationUs: number;
  /** Means per request. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly ttftUs: number;
  /** Between tokens: the mean of the requests' means. */
  readonly tpotUs: number;
  /** Standard deviations of the lengths, where the file has them beside means. */
  readonly inputStd?: number;
  readonly outputStd?: number;
}

/** The means of requests that are known one by one. */
export function runOf(about: Pick<FitRun, "source" | "format" | "concurrency">, requests: readonly Answered[]): FitRun {
  const sorted = requests.toSorted((a, b) => a.sentUs - b.sentUs);
  const mean = (of: readonly Answered[], value: (request: Answered) => number) =>
    of.reduce((sum, request) => sum + value(request), 0) / of.length;
  const long = sorted.filter(({ outputTokens }) => outputTokens > 1);
  return {
    ...about,
    requests: sorted,
    completed: sorted.length,
    durationUs: sorted.reduce((last, { lastUs }) => Math.max(last, lastUs), 0) - sorted[0]!.sentUs,
    inputTokens: mean(sorted, ({ inputTokens }) => inputTokens),
    outputTokens: mean(sorted, ({ outputTokens }) => outputTokens),
    ttftUs: mean(sorted, ({ firstUs, sentUs }) => firstUs - sentUs),
    tpotUs: mean(long, ({ firstUs, lastUs, outputTokens }) => (lastUs - firstUs) / (outputTokens - 1)),
  };
}

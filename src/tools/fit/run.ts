/** Types of benchmark runs: requests with their times, or only means. Times are in microseconds. */

/** One answered request. Times count from any start, which is the same for a whole run. */
export interface AnsweredRequest {
  readonly sentUs: number;
  readonly firstUs: number;
  readonly lastUs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time of each token after the first. Null if only the last time is known. */
  readonly laterUs: readonly number[] | null;
}

export interface FitRun {
  /** Name for messages: the file, and its line if it has several runs. */
  readonly source: string;
  /** The tool that wrote the result. */
  readonly format: string;
  /** Requests in the order of sending. Null if the file has only means. */
  readonly requests: readonly AnsweredRequest[] | null;
  /** Maximum number of simultaneous requests in a closed loop. Null for an open loop. */
  readonly concurrency: number | null;
  readonly completed: number;
  readonly durationUs: number;
  /** Means per request. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly ttftUs: number;
  /** Time between tokens: the mean of the means of all requests. */
  readonly tpotUs: number;
  /** Standard deviations of the lengths, if the file has them in addition to means. */
  readonly inputStd?: number;
  readonly outputStd?: number;
}

/** Makes a run from single requests, with their means. */
export function runOf(
  origin: Pick<FitRun, "source" | "format" | "concurrency">,
  requests: readonly AnsweredRequest[],
): FitRun {
  const sorted = requests.toSorted((a, b) => a.sentUs - b.sentUs);
  const mean = (of: readonly AnsweredRequest[], value: (request: AnsweredRequest) => number) =>
    of.reduce((sum, request) => sum + value(request), 0) / of.length;
  const long = sorted.filter(({ outputTokens }) => outputTokens > 1);
  return {
    ...origin,
    requests: sorted,
    completed: sorted.length,
    durationUs: sorted.reduce((last, { lastUs }) => Math.max(last, lastUs), 0) - sorted[0]!.sentUs,
    inputTokens: mean(sorted, ({ inputTokens }) => inputTokens),
    outputTokens: mean(sorted, ({ outputTokens }) => outputTokens),
    ttftUs: mean(sorted, ({ firstUs, sentUs }) => firstUs - sentUs),
    tpotUs: mean(long, ({ firstUs, lastUs, outputTokens }) => (lastUs - firstUs) / (outputTokens - 1)),
  };
}

/** Titles of metrics, and their meanings for results without definitions. */

/** Titles of known metrics, in the order of the tables. */
export const METRIC_TITLES: Readonly<Record<string, string>> = {
  ttft: "TTFT",
  ttft_intended: "TTFT from intended",
  tpot: "TPOT",
  itl: "ITL",
  icl: "ICL",
  e2el: "E2E",
  e2el_intended: "E2E from intended",
  e2el_eof: "E2E to end of body",
  queue: "Queue",
  sched_delay: "Send delay",
};

export const METRIC_DEFINITIONS: Readonly<Record<string, string>> = {
  ttft: "time to first token: from the first byte of the request handed to the kernel to the first chunk with generated output",
  ttft_intended: "the same from the intended time, so that a late send counts",
  tpot: "time per output token: from the first to the last chunk, divided by the tokens after the first chunk; requests with more than one",
  itl: "inter-token latency: gaps between tokens; tokens that come in one chunk have 0 between them",
  icl: "inter-chunk latency: gaps between chunks with generated output, of all requests together",
  e2el: "from the send to the last chunk with generated output",
  e2el_intended: "the same from the intended time",
  e2el_eof: "from the send to the end of the body",
  queue: "from arrival at the engine to the first step that it was scheduled in",
  sched_delay: "send minus intended time",
};

export const labelOf = (metric: string): string => METRIC_TITLES[metric] ?? metric;

/** Sorts metrics: known ones first, in the order of the tables. */
export function inTableOrder(metrics: readonly string[]): string[] {
  const known = Object.keys(METRIC_TITLES).filter((name) => metrics.includes(name));
  return [...known, ...metrics.filter((name) => !(name in METRIC_TITLES))];
}

/**
 * Reads Understudy's own truth log. Its rows are ordered by the ends of requests, so all are read first and then sorted
 * by arrival. The log does not say what prompts contain, so no two prompts share a block.
 */
import { jsonObjectIn, shownJson } from "../base/json-object.ts";
import type { Line } from "./lines.ts";
import { SORTED_MOST, SortedRequests } from "./sorted.ts";
import { isCount, type TraceItem } from "./trace.ts";

const SCHEMA = 1;
const EXPECTED = 'a line of a truth log, such as {"type":"request","arrivalUs":0,"promptTokens":7,"outputTokens":20,…}';
/** Throws a TraceError for more than `most` requests. `skipRow` is called for each request that ended before its first token. */
export function* truth(
  lines: Iterable<Line>,
  skipRow: (reason: string) => void,
  most = SORTED_MOST,
): Generator<TraceItem> {
  const sorted = new SortedRequests("a truth log", most);
  for (const { number, text } of lines) {
    const line = jsonObjectIn(text);
    if (line === null || typeof line.type !== "string") yield { line: number, expected: EXPECTED };
    else if (line.type === "header" && line.schema !== SCHEMA) {
      yield { line: number, expected: `a truth log of schema ${SCHEMA}, not ${shownJson(line.schema).slice(0, 40)}` };
    } else if (line.type === "request") {
      const { arrivalUs, promptTokens, outputTokens } = line;
      if (!isCount(arrivalUs, 0) || !isCount(promptTokens, 1) || !isCount(outputTokens, 0)) {
        yield { line: number, expected: EXPECTED };
      } else if (outputTokens === 0) skipRow("it ended before its first token");
      else sorted.add(number, arrivalUs, promptTokens, outputTokens);
    }
  }
  yield* sorted.byArrival();
}

/**
 * Which requests does our own truth log hold? Its rows come in order of their ends, so all are read first and sorted by
 * arrival: 32 bytes a request. What the prompts held is not in the log, so no two share a block.
 */
import { jsonObjectIn, shownJson } from "../config/json-object.ts";
import type { Line } from "./lines.ts";
import { isCount, TraceError, type TraceItem } from "./trace.ts";

const SCHEMA = 1;
const EXPECTED = 'a line of a truth log, such as {"type":"request","arrivalUs":0,"promptTokens":7,"outputTokens":20,…}';
/** Arrival, prompt, output, line: numbers per row, in the order in which rows are compared after their arrival. */
const WIDTH = 4;
/** Most requests: all are held until they are sorted, in 256 MiB. */
export const TRUTH_ROWS_MOST = 1 << 23;

/** Throws a TraceError for more requests than fit. `passOver` is called for each request that ended before its first token. */
export function* truth(
  lines: Iterable<Line>,
  passOver: (reason: string) => void,
  most = TRUTH_ROWS_MOST,
): Generator<TraceItem> {
  let rows = new Float64Array(1024 * WIDTH);
  let count = 0;
  for (const { number, text } of lines) {
    const line = jsonObjectIn(text);
    if (line === null || typeof line.type !== "string") yield { line: number, expected: EXPECTED };
    else if (line.type === "header" && line.schema !== SCHEMA) {
      yield { line: number, expected: `a truth log of schema ${SCHEMA}, not ${shownJson(line.schema).slice(0, 40)}` };
    } else if (line.type === "request") {
      const { arrivalUs, promptTokens, outputTokens } = line;
      if (!isCount(arrivalUs, 0) || !isCount(promptTokens, 1) || !isCount(outputTokens, 0)) {
        yield { line: number, expected: EXPECTED };
      } else if (outputTokens === 0) passOver("it ended before its first token");
      else {
        if (count === most) throw new TraceError(`line ${number}: more than ${most} requests in a truth log`);
        if ((count + 1) * WIDTH > rows.length) rows = grown(rows);
        rows.set([arrivalUs, promptTokens, outputTokens, number], WIDTH * count++);
      }
    }
  }
  const order = Uint32Array.from({ length: count }, (_, row) => row);
  order.sort((a, b) => rows[WIDTH * a]! - rows[WIDTH * b]! || a - b);
  for (const row of order) {
    const [arrivalUs, promptTokens, outputTokens, line] = rows.subarray(WIDTH * row) as unknown as number[];
    yield {
      line: line!,
      arrivalUs: arrivalUs!,
      promptTokens: promptTokens!,
      outputTokens: outputTokens!,
      blockIds: null,
    };
  }
}

function grown(rows: Float64Array): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(2 * rows.length);
  larger.set(rows);
  return larger;
}

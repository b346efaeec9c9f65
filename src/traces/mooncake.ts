/** What does a line of a Mooncake trace say? JSON: time in ms, lengths, and an id per 512-token block of the prompt. */
import type { Line } from "./lines.ts";
import { isCount, TRACE_BLOCK, type TraceItem } from "./trace.ts";

const EXPECTED = 'a JSON object such as {"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [0, 1]}';

/** An id may stand for a partial last block; where there are fewer ids than blocks, the rest of the prompt is unknown. */
export function* mooncake(lines: Iterable<Line>): Generator<TraceItem> {
  for (const { number, text } of lines) yield readLine(number, text);
}

function readLine(line: number, text: string | null): TraceItem {
  let row: Record<string, unknown>;
  try {
    row = JSON.parse(text ?? "");
  } catch {
    return { line, expected: EXPECTED };
  }
  if (typeof row !== "object" || row === null) return { line, expected: EXPECTED };
  const { timestamp, input_length: promptTokens, output_length: outputTokens, hash_ids: ids } = row;
  if (typeof timestamp !== "number" || !(timestamp >= 0) || timestamp > 1e15) {
    return { line, expected: '"timestamp": milliseconds, a number of at least 0' };
  }
  if (!isCount(promptTokens, 1)) return { line, expected: '"input_length": a whole number of at least 1' };
  if (!isCount(outputTokens, 1)) return { line, expected: '"output_length": a whole number of at least 1' };
  const blocks = Math.ceil(promptTokens / TRACE_BLOCK);
  if (!Array.isArray(ids) || ids.length > blocks || !ids.every((id) => isCount(id, 0))) {
    return {
      line,
      expected: `"hash_ids": at most ${blocks} whole numbers, one per ${TRACE_BLOCK} tokens of input_length`,
    };
  }
  return { line, arrivalUs: Math.round(timestamp * 1000), promptTokens, outputTokens, blockIds: ids };
}

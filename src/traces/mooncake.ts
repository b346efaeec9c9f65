/**
 * Reads Mooncake traces: JSON lines with a time, lengths, and an id per block of the prompt (FAST25 release: milliseconds,
 * 512 tokens per id). An id may stand for a partial last block. If there are fewer ids than blocks, the rest of the prompt
 * is unknown.
 */
import { jsonObjectIn, type LooseObject } from "../config/json-object.ts";
import type { Line } from "./lines.ts";
import { UNIT_NAMES } from "./timestamps.ts";
import { isCount, notThis, type RowShape, type TraceItem } from "./trace.ts";

export const MOONCAKE_EXPECTED =
  'a JSON object such as {"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [0, 1]}';

export function* mooncake(lines: Iterable<Line>, shape: RowShape): Generator<TraceItem> {
  for (const { number: line, text } of lines) {
    const row = jsonObjectIn(text);
    const read = row === null ? MOONCAKE_EXPECTED : requestOf(row, line, shape);
    yield typeof read === "string" ? { line, expected: read } : read;
  }
}

function requestOf(row: LooseObject, line: number, shape: RowShape): TraceItem | string {
  const arrivalUs = timeOf(row, "timestamp", shape);
  if (typeof arrivalUs === "string") return arrivalUs;
  const prompt = promptOfRow(row, shape, isCount);
  if (typeof prompt === "string") return prompt;
  const { output_length: outputTokens } = row;
  if (!isCount(outputTokens, 1)) return notThis('"output_length": a whole number of at least 1', outputTokens);
  shape.times.add(arrivalUs, row.timestamp);
  return { line, arrivalUs, ...prompt, outputTokens };
}

/** Reads a timestamp or a pause. Returns microseconds, or the condition that the value fails. */
export function timeOf(row: LooseObject, field: string, { times }: RowShape): number | string {
  return (
    times.microseconds(row[field]) ??
    notThis(`"${field}": ${UNIT_NAMES[times.unit]}, a number of at least 0`, row[field])
  );
}

/**
 * Reads the length of a prompt and its hash ids. Returns both, or the condition that a value fails. `isTokens`: whether a
 * value is a length that the caller can use.
 */
export function promptOfRow(
  row: LooseObject,
  { blockTokens }: RowShape,
  isTokens: (value: unknown, least: number) => value is number,
): { readonly promptTokens: number; readonly blockIds: readonly number[] | null } | string {
  const { input_length: promptTokens, hash_ids: ids } = row;
  if (!isTokens(promptTokens, 1)) return notThis('"input_length": a whole number of at least 1', promptTokens);
  const blocks = Math.ceil(promptTokens / blockTokens);
  const most = `at most ${blocks} whole numbers, one per ${blockTokens} tokens of input_length ${promptTokens}`;
  if (!Array.isArray(ids)) return notThis(`"hash_ids": ${most}`, ids);
  if (ids.length > blocks) return `"hash_ids": ${most}, not ${ids.length}`;
  const wrong = ids.findIndex((id) => !isCount(id, 0));
  if (wrong >= 0) return notThis(`"hash_ids": ${most}`, ids[wrong]);
  return { promptTokens, blockIds: ids };
}

/**
 * Reads Mooncake traces: JSON lines with a time, lengths, and an id per block of the prompt (FAST25 release: milliseconds,
 * 512 tokens per id). An id may stand for a partial last block. If there are fewer ids than blocks, the rest of the prompt
 * is unknown.
 */
import type { LooseObject } from "../base/json-object.ts";
import { isHashId, traceRowIn } from "./identities.ts";
import type { Line } from "./lines.ts";
import { UNIT_NAMES } from "./timestamps.ts";
import { isCount, notThis, type RowShape, TraceError, type TraceItem, type TraceRequest } from "./trace.ts";

export const MOONCAKE_EXPECTED =
  'a JSON object such as {"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [0, 1]}';

/** Largest number of sessions, because all their names are kept in memory. */
const SESSIONS_MOST = 1 << 22;

/** Throws a TraceError for more sessions than `most`. */
export function* mooncake(lines: Iterable<Line>, shape: RowShape, most = SESSIONS_MOST): Generator<TraceItem> {
  const sessions = new Set<string>();
  let lastUs = 0;
  for (const { number: line, text } of lines) {
    const row = traceRowIn(text);
    const read = row === null ? MOONCAKE_EXPECTED : requestOf(row, line, shape, sessions, lastUs);
    if (typeof read === "string") {
      yield { line, expected: read };
      continue;
    }
    if (!read.follows) lastUs = read.arrivalUs;
    if (read.conversation !== undefined) sessions.add(read.conversation);
    if (sessions.size > most) throw new TraceError(`line ${line}: more than ${most} sessions in a mooncake trace`);
    yield read;
  }
}

function requestOf(
  row: LooseObject,
  line: number,
  shape: RowShape,
  sessions: ReadonlySet<string>,
  lastUs: number,
): TraceRequest | string {
  const time = rowTimesOf(row, shape);
  if (typeof time === "string") return time;
  const { session, thinkUs } = time;
  const follows = session !== null && sessions.has(session);
  // If rows have no time, a session's first row is sent with the row before it, and later rows after their session's
  // previous answer.
  const arrivalUs = time.arrivalUs ?? (follows ? 0 : session === null || thinkUs === null ? null : lastUs);
  if (arrivalUs === null) {
    return `${notThis(`"timestamp": ${unitOf(shape)}`, undefined)}, and so is "session_id" with "delay"`;
  }
  const prompt = promptOfRow(row, shape, isCount);
  if (typeof prompt === "string") return prompt;
  const { output_length: outputTokens } = row;
  if (!isCount(outputTokens, 1)) return notThis('"output_length": a whole number of at least 1', outputTokens);
  if (time.arrivalUs !== null) shape.times.add(time.arrivalUs, row.timestamp);
  const turn = session === null ? {} : { conversation: session, follows, thinkUs: thinkUs ?? 0 };
  return { line, arrivalUs, ...prompt, outputTokens, ...turn };
}

interface RowTimes {
  /** Microseconds of the trace's clock, or null if the row has no time. */
  readonly arrivalUs: number | null;
  /** Pause in microseconds after the session's previous answer, or null if the row states none. */
  readonly thinkUs: number | null;
  readonly session: string | null;
}

/** Reads time, pause and session of a row. If a value is wrong, returns the condition that it fails. */
export function rowTimesOf(row: LooseObject, shape: RowShape): RowTimes | string {
  const arrivalUs = isPresent(row.timestamp) ? timeOf(row, "timestamp", shape) : null;
  if (typeof arrivalUs === "string") return arrivalUs;
  const thinkUs = isPresent(row.delay) ? timeOf(row, "delay", shape) : null;
  if (typeof thinkUs === "string") return thinkUs;
  const session = row.session_id ?? null;
  if (session !== null && typeof session !== "string") return notThis('"session_id": a text', session);
  return { arrivalUs, thinkUs, session };
}

export const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

const unitOf = ({ times }: RowShape): string => `${UNIT_NAMES[times.unit]}, a number of at least 0`;

/** Reads a timestamp or a pause. Returns microseconds, or the condition that the value fails. */
export function timeOf(row: LooseObject, field: string, shape: RowShape): number | string {
  return shape.times.microseconds(row[field]) ?? notThis(`"${field}": ${unitOf(shape)}`, row[field]);
}

/**
 * Reads the length of a prompt, in `field`, and its hash ids. Without ids, the prompt shares no block. Returns the
 * length and a number for each id. If a value is wrong, returns the condition that it fails. `isTokens`: accepts the
 * lengths that the caller can use.
 */
export function promptOfRow(
  row: LooseObject,
  { blockTokens, ids: identities }: RowShape,
  isTokens: (value: unknown, least: number) => value is number,
  field = "input_length",
): { readonly promptTokens: number; readonly blockIds: readonly number[] | null } | string {
  const { [field]: promptTokens, hash_ids: ids = null } = row;
  if (!isTokens(promptTokens, 1)) return notThis(`"${field}": a whole number of at least 1`, promptTokens);
  if (ids === null) return { promptTokens, blockIds: null };
  const blocks = Math.ceil(promptTokens / blockTokens);
  const most = `at most ${blocks} ids, one per ${blockTokens} tokens of ${field} ${promptTokens}`;
  if (!Array.isArray(ids)) return notThis(`"hash_ids": ${most}`, ids);
  if (ids.length > blocks) return `"hash_ids": ${most}, not ${ids.length}`;
  const wrong = ids.findIndex((id) => !isHashId(id));
  if (wrong >= 0) return notThis('"hash_ids": whole numbers from 0 to 2^64 - 1, or texts', ids[wrong]);
  return { promptTokens, blockIds: ids.map((id) => identities.of(id)) };
}

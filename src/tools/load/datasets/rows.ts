/** Helpers of the readers of dataset files: JSON lines, times that begin at 0 and rise, token counts. */
import { traceRowIn } from "../../../workloads/identities.ts";
import type { Line } from "../../../workloads/lines.ts";
import { type BadLine, isCount } from "../../../workloads/trace.ts";
import type { ConversationMessage, Turn } from "../requests/types.ts";

export type DatasetRow = Readonly<Record<string, unknown>>;

export const isBad = (item: object): item is BadLine => "expected" in item;

/** True for milliseconds from 0 to 31,000 years. */
export const isMs = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= 1e15;

/** Maximum number of tokens, so that a typing mistake does not create gigabytes of text. */
const TOKENS_MOST = 2 ** 24;
export const isTokens = (value: unknown, least: number): value is number =>
  isCount(value, least) && value <= TOKENS_MOST;

/** Reports whether the value is a list of messages. Content may consist of parts, which are passed on unchanged. */
export function isMessages(value: unknown): value is readonly ConversationMessage[] {
  const isMessage = (message: unknown) => typeof (message as { role?: unknown } | null)?.role === "string";
  return Array.isArray(value) && value.length > 0 && value.every(isMessage);
}

/** A turn with the number of its line. Its time, if it has one, is in microseconds from any start. */
export interface DatedTurn {
  readonly line: number;
  readonly turn: Turn;
}

/**
 * Moves the first time to 0, and reports rows whose order or times are wrong. First turns of conversations, and single
 * requests, must be sorted by time. Later turns wait for the answer before them, so they need no time. Either all first turns
 * have times, or none. Keeps the names of all conversations in memory.
 */
export function* inOrder(items: Iterable<DatedTurn | BadLine>): Generator<Turn | BadLine> {
  const begun = new Set<string>();
  let firstUs: number | null | undefined;
  let lastUs = 0;
  for (const item of items) {
    if (isBad(item)) {
      yield item;
      continue;
    }
    const { line, turn } = item;
    const { conversation } = turn;
    const isLater = conversation !== null && begun.has(conversation);
    // A conversation that begins with a pause, not a time, starts together with the request before it.
    const isPaused = conversation !== null && !isLater && turn.arrivalUs === null && turn.thinkUs > 0;
    const arrivalUs = isPaused && typeof firstUs === "number" ? lastUs : turn.arrivalUs;
    if (firstUs === undefined) firstUs = arrivalUs;
    if (!isLater && (firstUs === null) !== (arrivalUs === null)) {
      yield {
        line,
        expected:
          firstUs === null ? "no timestamp, as in the lines before it" : "a timestamp, as in the lines before it",
      };
      continue;
    }
    if (!isLater && arrivalUs !== null && arrivalUs < lastUs) {
      const earlier = (lastUs - arrivalUs) / 1000;
      yield { line, expected: `a time not before that of the request ahead of it; it is ${earlier} ms earlier` };
      continue;
    }
    if (conversation !== null) begun.add(conversation);
    if (!isLater && arrivalUs !== null) lastUs = arrivalUs;
    yield arrivalUs === null ? turn : { ...turn, arrivalUs: Math.max(0, Math.round(arrivalUs - (firstUs ?? 0))) };
  }
}

/**
 * Parses lines as JSON objects and passes them to `row`. If `row` returns a text, the line is bad, and the text says what was
 * expected.
 */
export function* jsonLines(
  lines: Iterable<Line>,
  expected: string,
  row: (row: DatasetRow, line: number) => Turn | string,
): Generator<DatedTurn | BadLine> {
  for (const { number: line, text } of lines) {
    const json = traceRowIn(text);
    const turn = json === null ? expected : row(json, line);
    yield typeof turn === "string" ? { line, expected: turn } : { line, turn };
  }
}

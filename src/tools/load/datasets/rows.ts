/** What do the readers of files have in common: JSON lines, times that begin at 0 and rise, token counts? */
import { traceRowIn } from "../../../workloads/identities.ts";
import type { Line } from "../../../workloads/lines.ts";
import { type BadLine, isCount } from "../../../workloads/trace.ts";
import type { ConversationMessage, Turn } from "../requests/types.ts";

export type DatasetRow = Readonly<Record<string, unknown>>;

export const isBad = (item: object): item is BadLine => "expected" in item;

/** Milliseconds from 0 to 31,000 years. */
export const isMs = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= 1e15;

/** At most so many tokens, so that a slip of the pen makes no text of a gigabyte. */
const TOKENS_MOST = 2 ** 24;
export const isTokens = (value: unknown, least: number): value is number =>
  isCount(value, least) && value <= TOKENS_MOST;

/** Content may be of parts, as the API takes it, and goes on as it is. */
export function isMessages(value: unknown): value is readonly ConversationMessage[] {
  const isMessage = (one: unknown) => typeof (one as { role?: unknown } | null)?.role === "string";
  return Array.isArray(value) && value.length > 0 && value.every(isMessage);
}

/** A turn that may have a time, in microseconds of whatever clock, and the line it stands in. */
export interface Dated {
  readonly line: number;
  readonly turn: Turn;
}

/**
 * Moves the first time to 0. The first requests of conversations, and those that stand alone, must come in order; later
 * turns wait for the answer before them anyway, and need no time. All of the first have times, or none has. Names of
 * conversations are kept until the end: as much memory as they take in the file.
 */
export function* inOrder(items: Iterable<Dated | BadLine>): Generator<Turn | BadLine> {
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
    // A conversation that begins with a pause in place of a time begins with the request ahead of it.
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

/** Lines that are JSON objects, read by `row`. */
export function* jsonLines(
  lines: Iterable<Line>,
  expected: string,
  row: (row: DatasetRow, line: number) => Turn | string,
): Generator<Dated | BadLine> {
  for (const { number: line, text } of lines) {
    const found = traceRowIn(text);
    const turn = found === null ? expected : row(found, line);
    yield typeof turn === "string" ? { line, expected: turn } : { line, turn };
  }
}

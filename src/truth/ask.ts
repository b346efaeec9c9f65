/** Converts kept rows to text, in pieces of a few rows, so that the caller can let the engine's steps run in between. */
import { formatPage, idOf, requestIdOf } from "./format.ts";
import { Page } from "./page.ts";
import type { RecentRows } from "./recent.ts";
import { eachRun, engineOf, FIELDS, type Words } from "./request-row.ts";
import { headerLine, type LogHeader, type PageLine, SCHEMA } from "./schema.ts";

/** Largest number of rows and of tokens in a piece, and of rows that are only scanned, which is faster. */
const ROWS = 64;
const TOKENS = 512;
const SCANNED_ROWS = 1024;

/** Indices of fields in a step's row. */
const [DUE, WRITE_START, WRITE_END] = [FIELDS + 3, FIELDS + 4, FIELDS + 5];

/** First row and number of rows that a client requests. */
export interface TruthQuery {
  /** Number of the first row. null: the oldest kept row. "end": no row, only the number of the next row. */
  readonly since: number | "end" | null;
  readonly limit: number;
  readonly steps: boolean;
}

function textOf(rows: readonly Words[]): string {
  let text = "";
  for (const words of rows) {
    const page = new Page(words);
    page.used = words.length;
    formatPage(page, (line) => {
      text += `${line}\n`;
    });
  }
  return text;
}

/** Counts how many requests refer to each step of an engine, stored as differences between consecutive steps. */
class StepReferences {
  first = Number.POSITIVE_INFINITY;
  last = 0;
  readonly #changes = new Map<number, number>();

  add(first: number, steps: number): void {
    this.first = Math.min(this.first, first);
    this.last = Math.max(this.last, first + steps - 1);
    this.#changes.set(first, (this.#changes.get(first) ?? 0) + 1);
    this.#changes.set(first + steps, (this.#changes.get(first + steps) ?? 0) - 1);
  }

  change(step: number): number {
    return this.#changes.get(step) ?? 0;
  }
}

/** Yields the lines of header, steps and requests. Returns the content of the last line. */
export function* rowsSince(
  recent: RecentRows,
  about: LogHeader,
  { since, limit, steps }: TruthQuery,
): Generator<string, PageLine> {
  yield `${headerLine(about, 0)}\n`;
  const from = since === "end" ? recent.next : Math.min(Math.max(since ?? recent.first, recent.first), recent.next);
  const missed = typeof since === "number" ? Math.max(0, from - since) : 0;
  const rows: Words[] = [];
  while (rows.length < limit && from + rows.length < recent.next) rows.push(recent.row(from + rows.length)!);
  const next = from + rows.length;
  const more = next < recent.next;
  const stepCount = steps ? yield* stepsOf(recent, rows) : 0;
  for (let at = 0; at < rows.length; at += ROWS) yield textOf(rows.slice(at, at + ROWS));
  return {
    type: "page",
    requests: rows.length,
    steps: stepCount,
    next: String(next),
    more,
    missed,
    keeps: recent.most,
  };
}

/** Yields the rows of all steps that these requests refer to. Returns their number. */
function* stepsOf(recent: RecentRows, rows: readonly Words[]): Generator<string, number> {
  const engines = new Map<number, StepReferences>();
  for (const [i, row] of rows.entries()) {
    if (i % SCANNED_ROWS === SCANNED_ROWS - 1) yield "";
    const engine = engineOf(row);
    const references = engines.get(engine) ?? new StepReferences();
    engines.set(engine, references);
    eachRun(row, (first, steps) => references.add(first, steps));
  }
  let stepCount = 0;
  for (const [engine, references] of engines) {
    let names = 0;
    let piece: Words[] = [];
    for (let step = references.first, scanned = 1; step <= references.last; step++, scanned++) {
      names += references.change(step);
      const row = names > 0 ? recent.step(engine, step) : null;
      if (row !== null) piece.push(row.slice());
      if (piece.length < ROWS && scanned % SCANNED_ROWS !== 0) continue;
      stepCount += piece.length;
      yield textOf(piece);
      piece = [];
    }
    stepCount += piece.length;
    yield textOf(piece);
  }
  return stepCount;
}

/** Returns the text before and after the rows of one request. */
export function envelopeOf({ epochUs }: LogHeader): readonly [before: string, after: string] {
  return [`{"schema":${SCHEMA},"epochUs":${epochUs},"requests":[`, "]}"];
}

/** Yields the rows of one request with the times of its tokens, as JSON with commas between rows. Yields nothing if the request is unknown. */
export function* rowsOf(recent: RecentRows, id: string): Generator<string> {
  const matches: Words[] = [];
  for (let number = recent.first; number < recent.next; number++) {
    const row = recent.row(number);
    if (row !== null && isOf(idOf(row, FIELDS), id)) matches.push(row);
    if (number % SCANNED_ROWS === 0) yield "";
  }
  for (const [i, row] of matches.entries()) {
    const line = textOf([row]).trimEnd();
    yield `${i > 0 ? "," : ""}${line.slice(0, -1)},"tokens":{`;
    yield* timesOf(recent, row, "dueUs", DUE);
    yield ",";
    yield* timesOf(recent, row, "writeStartUs", WRITE_START);
    yield ",";
    yield* timesOf(recent, row, "writeEndUs", WRITE_END);
    yield "}}";
  }
}

/** Returns true if `wanted` is the id of the generation, of its answer or of its request. */
function isOf(id: string, wanted: string): boolean {
  if (!id.includes(wanted)) return false;
  const requestId = requestIdOf(id);
  if (id === wanted || requestId === wanted) return true;
  return requestId !== null && wanted === `${id.includes("chatcmpl-") ? "chatcmpl" : "cmpl"}-${requestId}`;
}

function* timesOf(recent: RecentRows, row: Words, name: string, at: number): Generator<string> {
  const runs: [number, number, number][] = [];
  eachRun(row, (first, steps, width) => runs.push([first, steps, width]));
  const engine = engineOf(row);
  let text = `"${name}":[`;
  let tokens = 0;
  for (const [first, steps, width] of runs) {
    for (let step = first; step < first + steps; step++) {
      const us = recent.step(engine, step)?.[at] ?? Number.NaN;
      const shown = Number.isNaN(us) ? "null" : String(us);
      for (let token = 0; token < width; token++) text += tokens++ > 0 ? `,${shown}` : shown;
      if (tokens % TOKENS !== 0) continue;
      yield text;
      text = "";
    }
  }
  yield `${text}]`;
}

/**
 * Writes the kept rows as text, in pieces of a few rows, so that the sender can let the steps of the engine pass in
 * between.
 */
import { formatPage, idOf, requestIdOf } from "./format.ts";
import { Page } from "./page.ts";
import type { Recent } from "./recent.ts";
import { eachRun, engineOf, FIELDS, type Words } from "./request-row.ts";
import { type About, headerLine, type PageLine, SCHEMA } from "./schema.ts";

/** Rows of a piece; tokens of a piece; rows looked at, which is faster. */
const ROWS = 64;
const TOKENS = 512;
const LOOKED_AT = 1024;

/** Places of fields in a step's row. */
const [DUE, WRITE_START, WRITE_END] = [FIELDS + 3, FIELDS + 4, FIELDS + 5];

/** From where, and how much. */
export interface TruthQuery {
  /** Number of the first row; null: the oldest that is kept. "end": none, only the number of the next one. */
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

/** How often each step of an engine is named, as differences from one to the next. */
class Named {
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

/** Header, steps, requests, as lines; returns what the last line is made of. */
export function* rowsSince(
  recent: Recent,
  about: About,
  { since, limit, steps }: TruthQuery,
): Generator<string, PageLine> {
  yield `${headerLine(about, 0)}\n`;
  const from = since === "end" ? recent.next : Math.min(Math.max(since ?? recent.first, recent.first), recent.next);
  const missed = typeof since === "number" ? Math.max(0, from - since) : 0;
  const rows: Words[] = [];
  while (rows.length < limit && from + rows.length < recent.next) rows.push(recent.row(from + rows.length)!);
  const next = from + rows.length;
  const more = next < recent.next;
  const given = steps ? yield* stepsOf(recent, rows) : 0;
  for (let at = 0; at < rows.length; at += ROWS) yield textOf(rows.slice(at, at + ROWS));
  return { type: "page", requests: rows.length, steps: given, next: String(next), more, missed, keeps: recent.most };
}

/** The rows of all steps that these requests name; how many. */
function* stepsOf(recent: Recent, rows: readonly Words[]): Generator<string, number> {
  const engines = new Map<number, Named>();
  for (const [i, row] of rows.entries()) {
    if (i % LOOKED_AT === LOOKED_AT - 1) yield "";
    const engine = engineOf(row);
    const named = engines.get(engine) ?? new Named();
    engines.set(engine, named);
    eachRun(row, (first, steps) => named.add(first, steps));
  }
  let given = 0;
  for (const [engine, named] of engines) {
    let names = 0;
    let piece: Words[] = [];
    for (let step = named.first, looked = 1; step <= named.last; step++, looked++) {
      names += named.change(step);
      const row = names > 0 ? recent.step(engine, step) : null;
      if (row !== null) piece.push(row.slice());
      if (piece.length < ROWS && looked % LOOKED_AT !== 0) continue;
      given += piece.length;
      yield textOf(piece);
      piece = [];
    }
    given += piece.length;
    yield textOf(piece);
  }
  return given;
}

/** What stands around the rows of one request. */
export function around({ epochUs }: About): readonly [before: string, after: string] {
  return [`{"schema":${SCHEMA},"epochUs":${epochUs},"requests":[`, "]}"];
}

/** The rows of one request with the times of its tokens, as JSON with commas between them; nothing where it is not known. */
export function* rowsOf(recent: Recent, asked: string): Generator<string> {
  const found: Words[] = [];
  for (let number = recent.first; number < recent.next; number++) {
    const row = recent.row(number);
    if (row !== null && isOf(idOf(row, FIELDS), asked)) found.push(row);
    if (number % LOOKED_AT === 0) yield "";
  }
  for (const [i, row] of found.entries()) {
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

/** Is that the id of a generation, of its answer, or of its request? */
function isOf(id: string, asked: string): boolean {
  if (!id.includes(asked)) return false;
  const requestId = requestIdOf(id);
  if (id === asked || requestId === asked) return true;
  return requestId !== null && asked === `${id.includes("chatcmpl-") ? "chatcmpl" : "cmpl"}-${requestId}`;
}

function* timesOf(recent: Recent, row: Words, name: string, at: number): Generator<string> {
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

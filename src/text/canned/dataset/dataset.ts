/**
 * Answers prompts with rows of a SQLite table. The table has the form of llm-d-inference-sim's datasets, with the SHA-256 of the
 * prompt's IDs in each row. Hashes and lengths are kept in memory. Rows are read when they are needed.
 */

import { Database, type Statement } from "bun:sqlite";
import { readFileSync, statSync } from "node:fs";
import { sha256 } from "../../../base/digest.ts";
import { UserError } from "../../../base/start-errors.ts";
import type { Vocabulary } from "../../tokens/types.ts";
import { answerOf, type RowAnswer, wordsOf } from "./row.ts";
import { type Room, RowIndex } from "./row-index.ts";

/** The dataset as routes use it. */
export interface AnswerDataset {
  /** Returns token IDs or a text. Returns null if the row cannot be read. `draw`: 32 bits that choose among several rows. */
  answerTo(promptIds: Uint32Array, room: Room, draw: number): Uint32Array | string | null;
  close(): void;
}

/** A table of a SQLite file. */
export interface DatasetFile {
  readonly file: string;
  readonly table: string;
  /** True if the whole file is read into memory at the start. */
  readonly inMemory: boolean;
}

/** Error for a file that cannot be used. The message is one line. */
class UnusableDataset extends Error {}

/** Bytes of the longest `gen_tokens` that is read. A longer one would block the thread. */
const ROW_BYTES = 2 ** 20;
const COLUMNS = ["prompt_hash", "gen_tokens", "n_gen_tokens"];
/** Rows that are compared to find out whether the table's IDs are those of the vocabulary. */
const ROWS_TRIED = 8;

/** Opens a dataset. Throws a `UserError` if the file cannot be used. `say` takes lines for the user. */
export function openDataset(source: DatasetFile, vocabulary: Vocabulary, say: (line: string) => void): AnswerDataset {
  let database: Database | null = null;
  try {
    database = openDatabase(source);
    return new OpenDataset(database, source.table, vocabulary, say);
  } catch (error) {
    database?.close();
    const { message } = error as Error;
    const why = error instanceof UnusableDataset ? message : `not a database that can be read (${message})`;
    throw new UserError(`--dataset ${source.file}`, why);
  }
}

/** Opens the file. Throws `UnusableDataset`. */
function openDatabase({ file, inMemory }: DatasetFile): Database {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) throw new UnusableDataset("not a file");
    if (stats.size === 0) throw new UnusableDataset("the file is empty");
    return inMemory ? Database.deserialize(readFileSync(file), true) : new Database(file, { readonly: true });
  } catch (error) {
    if (error instanceof UnusableDataset) throw error;
    const { code, message } = error as { code?: string; message: string };
    throw new UnusableDataset(`cannot be read (${code ?? message})`);
  }
}

class OpenDataset implements AnswerDataset {
  readonly #database: Database;
  readonly #say: (line: string) => void;
  readonly #vocabulary: Vocabulary;
  readonly #index: RowIndex;
  readonly #row: Statement<{ answer: unknown }, [number]>;
  /** True if the IDs in the rows are those of this server's vocabulary. */
  readonly #idsAreOurs: boolean;

  constructor(database: Database, table: string, vocabulary: Vocabulary, say: (line: string) => void) {
    this.#database = database;
    this.#say = say;
    this.#vocabulary = vocabulary;
    const name = `"${table.replaceAll('"', '""')}"`;
    checkColumns(database, table, name);
    // In a transaction, so that no row is written between counting and reading.
    const { index, tooLong } = database.transaction(() => indexOf(database, name))();
    this.#index = index;
    const leftOut = tooLong === 0 ? "" : `, ${tooLong} left out (longer than ${ROW_BYTES} bytes)`;
    if (index.count === 0) throw new UnusableDataset(`table "${table}" has no rows${leftOut}`);
    this.#row = database.query(`SELECT CAST(gen_tokens AS TEXT) AS answer FROM ${name} WHERE rowid = ?`);
    this.#idsAreOurs = this.#compareIds();
    say(`dataset: ${index.count} rows of "${table}"${leftOut}; ${this.#idsAreOurs ? OURS : OTHERS}`);
  }

  answerTo(promptIds: Uint32Array, room: Room, draw: number): Uint32Array | string | null {
    const bytes = new Uint8Array(promptIds.buffer, promptIds.byteOffset, promptIds.byteLength);
    const row = this.#index.rowFor(sha256(bytes), room, draw);
    const read = this.#read(row);
    if ("broken" in read) {
      this.#say(`dataset: row ${row} cannot be used: ${read.broken}`);
      return null;
    }
    return this.#idsAreOurs && read.ids !== null && this.#areKnown(read.ids) ? read.ids : read.text;
  }

  close(): void {
    this.#database.close();
  }

  #read(row: number): RowAnswer | { readonly broken: string } {
    try {
      return answerOf(this.#row.get(row)?.answer);
    } catch (error) {
      return { broken: (error as Error).message };
    }
  }

  #areKnown(ids: Uint32Array): boolean {
    return ids.every((id) => id < this.#vocabulary.size);
  }

  /**
   * Reports whether the first rows' texts and the vocabulary's texts of their IDs are equal. Compares only words, because the
   * texts of such tables lack some other characters.
   */
  #compareIds(): boolean {
    let compared = 0;
    for (let at = 0; at < Math.min(ROWS_TRIED, this.#index.count); at++) {
      const read = this.#read(this.#index.rowAt(at));
      if ("broken" in read || read.ids === null) continue;
      const words = wordsOf(read.text);
      if (words === "") continue;
      if (!this.#areKnown(read.ids)) return false;
      const bytes = Array.from(read.ids, (id) => this.#vocabulary.bytesOf(id).slice());
      if (wordsOf(Buffer.concat(bytes).toString()) !== words) return false;
      compared++;
    }
    return compared > 0;
  }
}

const OURS = "their ids are those of this server's vocabulary";
const OTHERS = "their ids are of another vocabulary, so answers are encoded anew";

function checkColumns(database: Database, table: string, name: string): void {
  const found = database.query<{ name: string }, []>(`PRAGMA table_info(${name})`).all();
  if (found.length === 0) throw new UnusableDataset(`there is no table "${table}"`);
  const missing = COLUMNS.find((column) => found.every(({ name }) => name !== column));
  if (missing) throw new UnusableDataset(`table "${table}" has no column ${missing}`);
}

interface IndexedRow {
  readonly row: unknown;
  readonly hash: unknown;
  readonly tokens: unknown;
  readonly bytes: unknown;
}

function indexOf(database: Database, name: string): { readonly index: RowIndex; readonly tooLong: number } {
  const count = database.query<{ count: number }, []>(`SELECT COUNT(*) AS count FROM ${name}`).get()!.count;
  const index = new RowIndex(count);
  const rows = database.query<IndexedRow, []>(
    `SELECT rowid AS row, prompt_hash AS hash, n_gen_tokens AS tokens, LENGTH(gen_tokens) AS bytes FROM ${name}`,
  );
  for (const { row, hash, tokens, bytes } of rows.iterate()) {
    if (!(hash instanceof Uint8Array && hash.length === 32))
      throw new UnusableDataset(`row ${row}: prompt_hash is not the 32 bytes of a SHA-256`);
    if (!(typeof tokens === "number" && Number.isInteger(tokens) && tokens >= 0))
      throw new UnusableDataset(`row ${row}: n_gen_tokens is not a whole number`);
    if (Number(bytes) <= ROW_BYTES) index.add(Number(row), hash, tokens);
  }
  index.sort();
  return { index, tooLong: count - index.count };
}

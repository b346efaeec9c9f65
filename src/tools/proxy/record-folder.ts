/** Writes records into a folder. Each file is complete or absent. Counts the records that could not be written. */

import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../../base/start-errors.ts";
import { RECORD_NAME } from "../../text/canned/fixtures/recording.ts";

const nameOf = (ordinal: number) => `${String(ordinal).padStart(6, "0")}.json`;

export class RecordFolder {
  /** Number of written records. */
  count = 0;
  readonly #folder: string;
  readonly #say: (line: string) => void;
  /** Number of lost records: in total, and since the last written one. */
  #lost = 0;
  #lostInRow = 0;

  /** Creates the folder if it is missing. Throws the system's error if that fails, and a `UserError` if it has records. */
  constructor(folder: string, say: (line: string) => void) {
    mkdirSync(folder, { recursive: true });
    if (readdirSync(folder).some((name) => RECORD_NAME.test(name)))
      throw new UserError(`--record ${folder}`, "has records already; take an empty folder");
    this.#folder = folder;
    this.#say = say;
  }

  /**
   * Writes the next record. Returns false if writing fails; no part of the record is left then, and the first
   * failure of a row is reported. Fixtures ignore the file's name before it is complete, because it begins with a dot.
   */
  write(text: string): boolean {
    const path = join(this.#folder, nameOf(this.count + 1));
    const partial = join(this.#folder, `.${nameOf(this.count + 1)}.partial`);
    try {
      writeFileSync(partial, text);
      renameSync(partial, path);
    } catch (error) {
      removed(partial);
      this.#lose(path, error as NodeJS.ErrnoException);
      return false;
    }
    this.count++;
    if (this.#lostInRow > 0) this.#say(`records are written again; ${exchanges(this.#lostInRow)} not recorded`);
    this.#lostInRow = 0;
    return true;
  }

  close(): void {
    if (this.#lost > 0)
      this.#say(`${exchanges(this.#lost)} not recorded, because ${this.#folder} could not be written`);
  }

  #lose(path: string, { message }: NodeJS.ErrnoException): void {
    this.#lost++;
    if (this.#lostInRow++ > 0) return;
    this.#say(`cannot write ${path} (${message}): exchanges are forwarded but not recorded until it can be written`);
  }
}

const exchanges = (count: number) => (count === 1 ? "1 exchange was" : `${count} exchanges were`);

function removed(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The folder is not writable, so the temporary file stays. Its name begins with a dot, so readers of fixtures ignore it.
  }
}

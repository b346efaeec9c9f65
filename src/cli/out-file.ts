/** Where does a result go? A file that is opened before the work, so that nobody waits for what cannot be written. */
import { closeSync, openSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { TraceError } from "../workloads/trace.ts";

/**
 * Why the results cannot go where they are told to: one file for two of them, or the file that is read. Devices and
 * pipes may stand twice.
 */
export function overwritten(
  read: readonly string[],
  results: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const takenBy = new Map(read.map((path) => [identityOf(path), "the file that is read"]));
  for (const [flag, path] of Object.entries(results)) {
    if (path === undefined || isNoFile(path)) continue;
    const other = takenBy.get(identityOf(path));
    if (other !== undefined) return `${flag} ${path}: would overwrite ${other}`;
    takenBy.set(identityOf(path), `what ${flag} writes`);
  }
  return undefined;
}

const isNoFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === false;

/** The path without links; of a file that is not there yet, that of its folder. */
function identityOf(path: string): string {
  const real = (of: string): string | undefined => {
    try {
      return realpathSync(of);
    } catch {
      return undefined;
    }
  };
  const folder = real(dirname(resolve(path)));
  return real(path) ?? (folder === undefined ? resolve(path) : join(folder, basename(path)));
}

export class OutFile {
  readonly #path: string;
  readonly #fd: number;

  /** Empties the file. This and the others throw a TraceError where it cannot be written. */
  constructor(path: string) {
    this.#path = path;
    this.#fd = tried(path, () => openSync(path, "w"));
  }

  write(text: string): void {
    tried(this.#path, () => writeFileSync(this.#fd, text));
  }

  /** Writes the rest and closes. */
  end(text: string): void {
    this.write(text);
    tried(this.#path, () => closeSync(this.#fd));
  }
}

/** What `act` gives; a TraceError that names the file where it cannot write. */
export function tried<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (failure) {
    throw new TraceError(`cannot write "${path}" (${(failure as { code?: string }).code ?? failure})`);
  }
}

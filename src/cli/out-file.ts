/** Files for results. They are opened before the work starts, so that an unwritable path is reported at once. */
import { closeSync, openSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { TraceError } from "../workloads/trace.ts";

/**
 * Returns an error message if a result would overwrite another result or an input file, else undefined. A device or pipe may be
 * named more than once.
 */
export function overwritten(
  read: readonly string[],
  results: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const takenBy = new Map(read.map((path) => [identityOf(path), "the input file"]));
  for (const [flag, path] of Object.entries(results)) {
    if (path === undefined || isNoFile(path)) continue;
    const other = takenBy.get(identityOf(path));
    if (other !== undefined) return `${flag} ${path}: would overwrite ${other}`;
    takenBy.set(identityOf(path), `the file of ${flag}`);
  }
  return undefined;
}

const isNoFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === false;

/** Returns the path with its links resolved. If the file does not exist, resolves only the links of its folder. */
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
  readonly #fd: number;

  /** Opens and empties the file. Every method throws a TraceError if the file cannot be written. */
  constructor(private readonly path: string) {
    this.#fd = tried(path, () => openSync(path, "w"));
  }

  write(text: string): void {
    tried(this.path, () => writeFileSync(this.#fd, text));
  }

  /** Writes `text` as the end of the file, and closes the file. */
  end(text: string): void {
    this.write(text);
    tried(this.path, () => closeSync(this.#fd));
  }
}

/** Returns the result of `act`. If `act` throws, throws a TraceError that names the file. */
export function tried<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (failure) {
    throw new TraceError(`cannot write "${path}" (${(failure as { code?: string }).code ?? failure})`);
  }
}

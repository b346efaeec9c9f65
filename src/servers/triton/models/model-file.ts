/**
 * Reads the configuration of a model, and files that it names. Does not read devices, pipes or files of unexpected size, which could block the
 * process or fill its memory.
 */
import { readFileSync, statSync } from "node:fs";
import { resolve, sep } from "node:path";
import { NAMED_FILE_BYTES_MOST } from "../../../base/read-at-most.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";

/**
 * Reads a file. Throws a `TritonError` if it has more than `most` bytes, and the result of `missing` if it cannot be read or is
 * not a regular file.
 */
export function modelFile(file: string, most: number, missing = missingFile): Buffer {
  try {
    const found = statSync(file);
    if (!found.isFile()) throw missing(file);
    if (found.size > most) throw invalidArg(`${file} has ${found.size} bytes: a stand-in takes ${most}`);
    return readFileSync(file);
  } catch (error) {
    throw error instanceof TritonError ? error : missing(file);
  }
}

/** Reads a file of the configuration as text, like `modelFile`. */
export const modelText = (file: string): string => modelFile(file, NAMED_FILE_BYTES_MOST).toString();

/** Returns the error of the real server for a file that it cannot open. */
export const missingFile = (file: string): TritonError =>
  internal(`failed to open text file for read ${file}: No such file or directory`);

/** Reports whether the path of a file is below that of a folder. Does not follow symbolic links. */
export const isWithin = (folder: string, file: string): boolean => resolve(file).startsWith(resolve(folder) + sep);

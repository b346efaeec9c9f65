/**
 * Stores text that is too large for memory in a file next to the result. The file is deleted while still open, so it disappears
 * when the process ends.
 */
import { openSync, readSync, unlinkSync, writeSync } from "node:fs";
import type { Spool } from "../../tools/replay/history.ts";
import { TraceError } from "../../workloads/trace.ts";
import { tried } from "../out-file.ts";

export class FileSpool implements Spool {
  readonly #path: string;
  #fd = -1;
  #length = 0;

  /**
   * `path`: path of the result file. The first `append` creates the temporary file. Methods throw a TraceError if it cannot be
   * written.
   */
  constructor(path: string) {
    this.#path = `${path}.spool`;
  }

  append(bytes: Uint8Array): number {
    const at = this.#length;
    tried(this.#path, () => {
      if (this.#fd < 0) {
        this.#fd = openSync(this.#path, "w+");
        unlinkSync(this.#path);
      }
      for (let done = 0; done < bytes.length; ) {
        done += writeSync(this.#fd, bytes, done, bytes.length - done, at + done);
      }
    });
    this.#length += bytes.length;
    return at;
  }

  read(at: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const count = readSync(this.#fd, bytes, done, length - done, at + done);
      if (count === 0) throw new TraceError(`"${this.#path}" became shorter than what was written`);
      done += count;
    }
    return bytes;
  }
}

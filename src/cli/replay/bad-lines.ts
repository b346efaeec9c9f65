/** Which lines of the trace does `--skip-bad` pass over? */
import type { BadLine } from "../../traces/trace.ts";

export class BadLines {
  count = 0;
  first: BadLine | null = null;

  readonly add = (line: BadLine): void => {
    this.count++;
    this.first ??= line;
  };

  /** Where the first one is, of the trace that is called so. */
  tell(name: string): void {
    if (this.first) console.log(`first bad line: ${name}:${this.first.line}: expected ${this.first.expected}`);
  }
}

/** Selects which requests of a trace are sent, and reports the lines of the trace that could not be read (`--skip-bad`). */
import type { RequestSelection } from "../../workloads/requests.ts";
import { spanText } from "../../workloads/timestamps.ts";
import type { BadLine, Trace } from "../../workloads/trace.ts";
import { printText } from "../print.ts";
import type { ReplayValues } from "./replay-options.ts";

export class BadLines {
  count = 0;
  first: BadLine | null = null;

  readonly add = (line: BadLine): void => {
    this.count++;
    this.first ??= line;
  };

  /** Prints the place of the first unreadable line, if any line was unreadable. `name`: name of the trace. */
  tell(name: string): void {
    if (this.first) printText(`first bad line: ${name}:${this.first.line}: expected ${this.first.expected}`);
  }
}

/**
 * Prints the time span of the trace, the number of skipped rows, and a warning if the time unit of the trace is probably wrong.
 */
export function printRows({ times, passed }: Trace): void {
  const span = times?.span() ?? null;
  if (span !== null) printText(`trace span: ${spanText(span)}`);
  const reasons = passed.text();
  if (reasons !== null) printText(`trace rows: ${reasons}`);
  const warning = times?.warning() ?? null;
  if (warning !== null) printText(`warning: ${warning}`);
}

export const selectionOf = (values: ReplayValues, seed: number, bad: BadLines): RequestSelection => ({
  seed,
  limit: values.limit ?? Number.POSITIVE_INFINITY,
  rateScale: values["rate-scale"] ?? 1,
  onBad: values["skip-bad"] ? bad.add : null,
});

/** Returns the simulated time in microseconds at which the replay ends. Infinity if it ends after the last request. */
export const untilUsOf = ({ until }: ReplayValues): number =>
  until === undefined ? Number.POSITIVE_INFINITY : Math.round(until * 1e6);

/** Selects the requests of a trace that are sent, and reports the lines that were not read (`--skip-bad`). */
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

  /** Where the first one is, of the trace that is called so. */
  tell(name: string): void {
    if (this.first) printText(`first bad line: ${name}:${this.first.line}: expected ${this.first.expected}`);
  }
}

/** Prints the time that the trace spans, the rows that were passed over, and a warning if its unit is probably another. */
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

/** Simulated; Infinity: until all is done. */
export const untilUsOf = ({ until }: ReplayValues): number =>
  until === undefined ? Number.POSITIVE_INFINITY : Math.round(until * 1e6);

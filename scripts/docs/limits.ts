/**
 * The limits of docs/reference/limits.md. Each row names the test that shows it; `test/conformance/limits.test.ts` looks for
 * all of them, and for the options.
 */
import { faultLimits } from "./limits-faults.ts";
import { httpLimits } from "./limits-http.ts";
import { requestLimits } from "./limits-requests.ts";
import { toolLimits } from "./limits-tools.ts";
import { tritonLimits } from "./limits-triton.ts";

export interface LimitRow {
  /** The limited property. */
  readonly what: string;
  /** Option that sets the limit. Absent: it is fixed. */
  readonly option?: string;
  /** The limit, or the option's default. */
  readonly most: string;
  /** The consequence beyond the limit. */
  readonly beyond: string;
  /** Name of the test that shows it, or of a bench: `bench NAME`. */
  readonly test: string;
  /** File of the test. Absent: `test/conformance/limits.test.ts`. */
  readonly file?: string;
}

/** Rows by the heading of their table. */
export const limits: Readonly<Record<string, readonly LimitRow[]>> = {
  "Connections and bodies": httpLimits,
  "Requests and answers": requestLimits,
  "The Triton server": tritonLimits,
  "Faults, proxy, stress": faultLimits,
  "Load, check, replay": toolLimits,
};

export function limitsMarkdown(): string {
  return Object.entries(limits)
    .map(([title, rows]) => {
      const lines = rows.map(({ what, option, most, beyond }) => {
        return `| ${what} | ${option === undefined ? "" : `\`${option}\``} | ${most} | ${beyond} |`;
      });
      return [`## ${title}`, "", "| Limit | Option | Value | Beyond it |", "|---|---|---|---|", ...lines].join("\n");
    })
    .join("\n\n");
}

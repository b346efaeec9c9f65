/**
 * Collects the tables of docs/reference/limits.md. Each row names the test that shows the limit.
 * `test/conformance/limits.test.ts` checks that all these tests and the options exist.
 */
import { faultLimits } from "./limits-faults.ts";
import { httpLimits } from "./limits-http.ts";
import { requestLimits } from "./limits-requests.ts";
import { toolLimits } from "./limits-tools.ts";
import { tritonLimits } from "./limits-triton.ts";

export interface LimitRow {
  /** Quantity that is limited. */
  readonly what: string;
  /** Option that sets the limit. Absent if the limit is fixed. */
  readonly option?: string;
  /** Value of the limit. If an option sets the limit, the default of that option. */
  readonly most: string;
  /** Consequence of exceeding the limit. */
  readonly beyond: string;
  /** Name of the test that shows the limit, or `bench NAME` for a benchmark. */
  readonly test: string;
  /** Path of the file with the test. Absent: `test/conformance/limits.test.ts`. */
  readonly file?: string;
}

/** Rows of all tables, by the heading of the table. */
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

/**
 * Makes the tables of docs/reference/limits.md from the rows of limits.yaml. `test/conformance/limits.test.ts` checks that the
 * tests and the options of all rows exist.
 */
import { markdownTable } from "./markdown.ts";
import { tablesOf } from "./rows.ts";

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
export const limits = tablesOf<LimitRow>("limits.yaml", ["what", "most", "beyond", "test"], ["option", "file"]);

export function limitsMarkdown(): string {
  const tables = Object.entries(limits).map(([title, rows]) => {
    const cells = rows.map(({ what, option, most, beyond }) => [what, option ? `\`${option}\`` : "", most, beyond]);
    return `## ${title}\n\n${markdownTable([["Limit", "Option", "Value", "Beyond it"], ...cells])}`;
  });
  return tables.join("\n\n");
}

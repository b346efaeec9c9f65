/**
 * Makes the tables of docs/reference/differences.md from the rows of differences.yaml. `test/conformance/differences.test.ts`
 * checks that the tests of all rows exist.
 */
import { markdownTable } from "./markdown.ts";
import { tablesOf } from "./rows.ts";

export interface DifferenceRow {
  readonly what: string;
  /** Behaviour of the real server. */
  readonly real: string;
  readonly ours: string;
  readonly why: string;
  /** Name of the test that shows the difference. */
  readonly test: string;
  /** Path of the file with the test. Absent: `test/conformance/differences.test.ts`. */
  readonly file?: string;
}

/** Rows of all tables, by the heading of the table. */
export const differences = tablesOf<DifferenceRow>(
  "differences.yaml",
  ["what", "real", "ours", "why", "test"],
  ["file"],
);

export function differencesMarkdown(): string {
  const tables = Object.entries(differences).map(([title, rows]) => {
    const heading = ["What", title.startsWith("Triton") ? "Triton" : "vLLM 0.33", "Understudy", "Why"];
    const cells = rows.map(({ what, real, ours, why }) => [what, real, ours, why]);
    return `## ${title}\n\n${markdownTable([heading, ...cells])}`;
  });
  return tables.join("\n\n");
}

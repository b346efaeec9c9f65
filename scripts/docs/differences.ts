/**
 * Collects the tables of docs/reference/differences.md. Each row names the test that shows the difference.
 * `test/conformance/differences.test.ts` checks that all these tests exist.
 */
import { answerDifferences } from "./differences-answers.ts";
import { httpDifferences, routeDifferences } from "./differences-server.ts";
import { grpcDifferences, logDifferences, startDifferences } from "./differences-start.ts";

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
export const differences: Readonly<Record<string, readonly DifferenceRow[]>> = {
  HTTP: httpDifferences,
  Routes: routeDifferences,
  Answers: answerDifferences,
  Log: logDifferences,
  "Starting it": startDifferences,
  "Triton over gRPC": grpcDifferences,
};

export function differencesMarkdown(): string {
  return Object.entries(differences)
    .map(([title, rows]) => {
      const server = title.startsWith("Triton") ? "Triton" : "vLLM 0.33";
      const lines = rows.map(({ what, real, ours, why }) => `| ${what} | ${real} | ${ours} | ${why} |`);
      return [`## ${title}`, "", `| What | ${server} | Understudy | Why |`, "|---|---|---|---|", ...lines].join("\n");
    })
    .join("\n\n");
}

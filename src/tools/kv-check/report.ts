/** Prints reports on KV events: a table for the terminal, and JSON. JUnit XML is that of `understudy check`. */
import { printableJson, printableLines } from "../../base/printable.ts";
import { type CheckedTarget, checkTable, exitCode } from "../check/report.ts";
import type { KvReport } from "./checker.ts";

export interface CheckedPublisher extends CheckedTarget {
  readonly report: KvReport;
}

export interface KvTableOptions {
  /** Lists every law, not only the violated ones. */
  readonly all?: boolean;
  /** Prints only violations and publishers that could not be checked. */
  readonly quiet?: boolean;
}

/** Prints a table per publisher. Under it stand the figures of the publisher. */
export function kvTable(publishers: readonly CheckedPublisher[], options: KvTableOptions = {}): string {
  const parts = publishers.flatMap((publisher) => {
    const table = checkTable([publisher], options)
      .split("\n")
      .filter((line) => !line.startsWith("  dialect "))
      .map((line) => line.replace(/^ {2}no page: /, "  could not be checked: "));
    const isShown = !options.quiet && publisher.report.scrapes > 0;
    const text = [...table, ...(isShown ? [`  ${figures(publisher.report)}`] : [])].join("\n");
    return text === "" ? [] : [text];
  });
  return printableLines(parts.join("\n\n"));
}

function figures({ batches, events, storedBlocks, hashing, restarts, topics }: KvReport): string {
  const named = topics.map((topic) => JSON.stringify(topic)).join(", ");
  return [
    `${count(batches, "batch", "batches")} with ${count(events, "event", "events")} of topic ${named}`,
    `${count(storedBlocks, "block", "blocks")} stored at the end`,
    `hashes: ${hashing ?? "algorithm and seed not found"}`,
    ...(restarts > 0 ? [count(restarts, "restart", "restarts")] : []),
  ].join("; ");
}

const count = (number: number, one: string, more: string): string => `${number} ${number === 1 ? one : more}`;

/** Returns the report as JSON. */
export function kvJson(publishers: readonly CheckedPublisher[]): string {
  const targets = publishers.map(({ name, report }) => {
    const { errors, warnings, laws, unreadable, scrapes, batches, events, storedBlocks, hashing, restarts, topics } =
      report;
    const counts = {
      messages: scrapes,
      batches,
      events,
      storedBlocks,
      restarts,
      errors: errors.length,
      warnings: warnings.length,
    };
    return { name, ...counts, hashing, topics, unreachable: unreadable, laws };
  });
  return `${printableJson({ schema: "understudy-kv-check/1", exitCode: exitCode(publishers), targets }, 2)}\n`;
}

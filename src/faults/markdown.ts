/** How does docs/faults.md show the table? */
import { takes } from "./parse.ts";
import { FAULT_ROWS } from "./table.ts";
import { ANSWER_DIALECTS, type FaultRow } from "./types.ts";

const cell = (text: string) => text.replaceAll("|", "\\|");

export function faultsMarkdown(): string {
  const rows = [...FAULT_ROWS.values()].map(lineOf);
  return [
    "| Id | Stage | On the wire | Takes | At | A correct client | By |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
}

function lineOf(row: FaultRow): string {
  const { id, stage, what, position, dialects, oracle, text, reaches } = row;
  const ordered = stage !== "client";
  const where = dialects.length === ANSWER_DIALECTS.length ? "" : ` (${dialects.join(", ")})`;
  const others = reaches === "others" ? "; reaches others" : "";
  const cells = [
    id,
    stage,
    what + where,
    ordered ? takes(row) + others : "",
    ordered ? `\`${position}\`` : "",
    oracle,
    text,
  ];
  return `| ${cells.map(cell).join(" | ")} |`;
}

/** Writes the table of docs/reference/faults.md. */
import { describeParameters } from "./parse.ts";
import { ANSWER_DIALECTS, type FaultRow } from "./plan/types.ts";
import { faultRulesOf } from "./rows/row.ts";
import { FAULT_ROWS } from "./table.ts";

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
  const { id, stage, what, position, dialects, reaches } = row;
  const ordered = stage !== "client";
  const rules = faultRulesOf(row);
  const where = dialects.length === ANSWER_DIALECTS.length ? "" : ` (${dialects.join(", ")})`;
  const ways = rules.length < 2 ? "" : `: ${rules.map(({ way, rule }) => `\`${way}\` ${rule.what}`).join("; ")}`;
  const others = reaches === "others" ? "; reaches others" : "";
  const cells = [
    id,
    stage,
    what + where + ways,
    ordered ? describeParameters(row) + others : "",
    ordered ? `\`${position}\`` : "",
    byWay(rules, "oracle"),
    byWay(rules, "text"),
  ];
  return `| ${cells.map(cell).join(" | ")} |`;
}

/**
 * Returns the text of the rule if all variants of a fault agree. Otherwise joins the different texts, each after the names of
 * its variants.
 */
function byWay(rules: ReturnType<typeof faultRulesOf>, name: "oracle" | "text"): string {
  const byText = Map.groupBy(rules, ({ rule }) => rule[name]);
  if (byText.size === 1) return rules[0]!.rule[name];
  return [...byText].map(([text, some]) => `${some.map(({ way }) => `\`${way}\``).join(", ")}: ${text}`).join("; ");
}

/** How does a report read: as a table for eyes, as JSON, as JUnit's XML? */
import type { LawResult, Report, Verdict, Violation } from "./checker.ts";
import { numberText } from "./exposition.ts";

/** One server or one row of files. */
export interface Target {
  readonly name: string;
  readonly report: Report;
}

const SIGNS: Readonly<Record<Verdict, string>> = {
  held: "held",
  violated: "VIOLATED",
  note: "note",
  "not checkable": "–",
};

/** 0 fine, 1 a law of severity E is violated, 2 it could not look. */
export function exitCode(targets: readonly Target[]): number {
  if (targets.some(({ report }) => report.errors > 0)) return 1;
  return targets.some(({ report }) => report.scrapes === 0 || report.unreadable.length > 0) ? 2 : 0;
}

export function table(targets: readonly Target[]): string {
  return targets.map(tableOf).join("\n\n").replace(UNPRINTABLE, shown);
}

/** Labels are somebody else's text: no control character of theirs reaches the terminal. */
const UNPRINTABLE = /(?!\n)[\p{Cc}\p{Cf}]/gu;
const shown = (char: string) => `\\u{${char.codePointAt(0)!.toString(16)}}`;

function tableOf({ name, report }: Target): string {
  const { scrapes, dialects, restarts, leftOut, unreadable } = report;
  const lines = [name];
  for (const { atS, why } of unreadable)
    lines.push(`  could not look${scrapes === 0 ? "" : ` at ${time(atS)}`}: ${why}`);
  if (scrapes === 0) return lines.join("\n");
  if (leftOut > 0) lines.push(`  ${leftOut} engines or models were too many to look at each`);
  const spoken = dialects.length === 0 ? "unknown: the general laws only" : dialects.join(", ");
  const restarted = restarts > 0 ? `; ${restarts} restart${restarts > 1 ? "s" : ""}` : "";
  lines.push(`  dialect   ${spoken}`, `  scrapes   ${scrapes}${restarted}`, "");
  const there = report.laws.filter(({ verdict, reason }) => verdict !== "not checkable" || !isAbsent(reason));
  for (const law of there) lines.push(rowOf(law), ...detailsOf(law));
  const absent = Map.groupBy(
    report.laws.filter((law) => !there.includes(law)),
    ({ reason }) => reason,
  );
  for (const [reason, laws] of absent) lines.push(`  ${"–".padEnd(9)} ${laws[0]!.id}–${laws.at(-1)!.id}  ${reason}`);
  lines.push("", `  ${summary(report)}`);
  return lines.join("\n");
}

export function summary({ laws }: Report): string {
  const count = (wanted: Verdict) => laws.filter(({ verdict }) => verdict === wanted).length;
  const warnings = laws.filter(
    ({ verdict, violations }) => verdict === "violated" && violations.every(({ severity }) => severity !== "E"),
  );
  const violated = count("violated");
  const mild = warnings.length > 0 ? ` (${warnings.length} of them warnings)` : "";
  return `${count("held")} held, ${violated} violated${mild}, ${count("note")} notes, ${count("not checkable")} not checkable`;
}

const isAbsent = (reason: string): boolean => / metrics here$/.test(reason);

function rowOf({ id, verdict, sentence, reason }: LawResult): string {
  const why = verdict === "not checkable" || (verdict === "held" && /^one-sided/.test(reason)) ? ` (${reason})` : "";
  return `  ${SIGNS[verdict].padEnd(9)} ${id}  ${sentence}${why}`;
}

const INDENT = " ".repeat(17);

function detailsOf({ violations, violationCount, notes, means, looksLike }: LawResult): string[] {
  const lines: string[] = [];
  for (const violation of violations)
    lines.push(`${INDENT}${violation.severity}  ${comparison(violation)}  [${where(violation)}]`);
  if (violationCount > violations.length) lines.push(`${INDENT}… ${violationCount} times in all`);
  if (violations.length > 0) {
    lines.push(`${INDENT}${means}`);
    if (looksLike !== "") lines.push(`${INDENT}Looks like: ${looksLike}`);
  }
  for (const { known, ...note } of notes.slice(0, 1))
    lines.push(`${INDENT}${comparison(note)}  [${where(note)}]`, `${INDENT}${known}`);
  return lines;
}

/** `left = 3, must be ≤ right = 2`; a complaint is a sentence already. */
export function comparison({ left, relation, right }: Pick<Violation, "left" | "relation" | "right">): string {
  if (relation === "") return left.text;
  return `${side(left)}, must be ${relation} ${side(right)}`;
}

function side({ text, value }: Violation["left"]): string {
  const number = numberText(value);
  return text === number || text.startsWith(`${number},`) ? text : `${text} = ${number}`;
}

function where({ source, atS, beforeS }: Violation): string {
  return beforeS === null ? `${source} at ${time(atS)}` : `${source}, ${time(beforeS)} to ${time(atS)}`;
}

/** Seconds of the epoch as a time of day in UTC, others as seconds. */
function time(atS: number): string {
  return atS > 1e9 ? new Date(atS * 1000).toISOString().slice(11, 23) : `${Math.round(atS * 1000) / 1000} s`;
}

export function json(targets: readonly Target[]): string {
  const plain = (_: string, value: unknown) =>
    typeof value === "number" && !Number.isFinite(value) ? numberText(value) : value;
  return `${JSON.stringify({ schema: "understudy-check/1", exitCode: exitCode(targets), targets }, plain, 2)}\n`;
}

/** A suite per target, a case per law; a warning is a case that passes, with its words in system-out. */
export function junit(targets: readonly Target[]): string {
  const suites = targets.map(({ name, report }) => {
    const cases = report.laws.map((law) => caseOf(name, law));
    for (const { why } of report.unreadable) {
      cases.push(`    <testcase classname="${xml(name)}" name="scrape"><error message="${xml(why)}"/></testcase>`);
    }
    const skipped = report.laws.filter(({ verdict }) => verdict === "not checkable").length;
    const counts = `tests="${cases.length}" failures="${report.errors}" errors="${report.unreadable.length}" skipped="${skipped}"`;
    return [`  <testsuite name="${xml(name)}" ${counts}>`, ...cases, "  </testsuite>"].join("\n");
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", ...suites, "</testsuites>", ""].join("\n");
}

function caseOf(target: string, law: LawResult): string {
  const open = `    <testcase classname="${xml(target)}" name="${xml(`${law.id}: ${law.sentence}`)}"`;
  if (law.verdict === "not checkable") return `${open}><skipped message="${xml(law.reason)}"/></testcase>`;
  const words = [
    ...law.violations.map((one) => `${comparison(one)} [${where(one)}]`),
    ...law.notes.map(({ known }) => known),
  ];
  if (words.length === 0) return `${open}/>`;
  const text = xml(words.join("\n"));
  const isFailure = law.violations.some(({ severity }) => severity === "E");
  return isFailure
    ? `${open}><failure message="${xml(law.means)}">${text}</failure></testcase>`
    : `${open}><system-out>${text}</system-out></testcase>`;
}

function xml(text: string): string {
  const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return (
    text
      .replace(/[&<>"]/g, (char) => escapes[char]!)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML 1.0 has no way to write them
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
  );
}

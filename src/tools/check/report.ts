/** Prints reports: a table for the terminal, JSON, and JUnit XML. */

import { printableJson, printableLines } from "../../base/printable.ts";
import { numberText } from "./pages/exposition.ts";
import type { LawResult, Report, ScrapeExcerpt, Verdict, Violation } from "./verdicts.ts";

/** One server, or one series of files, with its report. */
export interface CheckedTarget {
  readonly name: string;
  readonly report: Report;
}

const SIGNS: Readonly<Record<Verdict, string>> = {
  held: "held",
  violated: "VIOLATED",
  note: "note",
  "not checkable": "–",
};

/** Requirements of the caller that decide between success and failure. */
export interface CheckDemands {
  /** True if a page fails the check when only general laws could be judged. */
  readonly requireDialect?: boolean;
}

/**
 * Returns the exit code. 0: no law of severity E is violated. 1: one is. 2: a scrape failed, or a required dialect is missing.
 */
export function exitCode(targets: readonly CheckedTarget[], { requireDialect = false }: CheckDemands = {}): number {
  if (targets.some(({ report }) => report.errors.length > 0)) return 1;
  const isFailure = ({ scrapes, unreadable, generalOnly }: Report) =>
    scrapes === 0 || unreadable.length > 0 || (requireDialect && generalOnly !== null);
  return targets.some(({ report }) => isFailure(report)) ? 2 : 0;
}

export interface TableOptions {
  /** Lists every law, not only the violated ones. */
  readonly all?: boolean;
  /** Prints only violations and failed scrapes. The result is "" if there are none. */
  readonly quiet?: boolean;
}

/**
 * Prints a table for the terminal: first the violated laws, then one line that sums up the others, or each of them with `all`.
 */
export function checkTable(targets: readonly CheckedTarget[], options: TableOptions = {}): string {
  const shownOf = options.quiet ? targets.filter(({ report }) => isWorthALine(report)) : targets;
  const parts = shownOf.map((target) => tableOf(target, options));
  // Labels and names come from the server, so control characters in them must be escaped.
  return printableLines(parts.join("\n\n"));
}

const isWorthALine = ({ scrapes, unreadable, violated, generalOnly, namesMissing }: Report): boolean =>
  scrapes === 0 || unreadable.length > 0 || violated.length > 0 || generalOnly !== null || namesMissing.length > 0;

function tableOf({ name, report }: CheckedTarget, { all = false, quiet = false }: TableOptions): string {
  const { scrapes, leftOut, unreadable, excerpts, violated } = report;
  const lines = [
    report.generalOnly === null ? name : `${name}: only general laws could be judged (${report.generalOnly})`,
  ];
  if (scrapes > 0 && report.namesMissing.length > 0)
    lines.push(`  names that no page has: ${report.namesMissing.join(", ")}`);
  for (const { atS, why } of unreadable) lines.push(`  no page${scrapes === 0 ? "" : ` at ${time(atS)}`}: ${why}`);
  if (scrapes === 0) return lines.join("\n");
  for (const law of [...violated].sort(byWeight)) lines.push(rowOf(law), ...detailsOf(law));
  if (quiet) return lines.join("\n");
  if (leftOut > 0) lines.push(`  ${leftOut} engines or models not judged, because there are too many`);
  for (const excerpt of excerpts) lines.push(`  ${excerptText(excerpt)}`);
  lines.push(`  ${dialectLine(report)}`);
  if (all) lines.push(...others(report));
  lines.push(`  ${verdictSummary(report)}${all ? "" : " (--all lists them)"}`);
  // After a long list the reader sees only its end, so name the violated laws again.
  if (violated.length > 0) lines.push(`  violated: ${[...violated].sort(byWeight).map(shortly).join(", ")}`);
  return lines.join("\n");
}

const isError = ({ violations }: LawResult): boolean => violations.some(({ severity }) => severity === "E");
const byWeight = (a: LawResult, b: LawResult): number => Number(isError(b)) - Number(isError(a));

/** Prints a violated law briefly: `V15`, or `G18 (W)` if it is not an error. */
export const shortly = (law: LawResult): string =>
  isError(law) ? law.id : `${law.id} (${law.violations[0]!.severity})`;

function excerptText({ source, gaps, cut }: ScrapeExcerpt): string {
  const where =
    gaps.length === 0
      ? ""
      : `lines ${gaps.slice(0, 3).join(", ")}${gaps.length > 3 ? ", …" : ""} stand for left-out lines`;
  const end = cut === null ? "" : `the text ends in the middle of ${cut}`;
  const why = [where, end].filter(Boolean).join(", and ");
  return `${source} is an excerpt (${why}): judged as far as it goes`;
}

/** Prints the recognised dialects: `vllm V0, up to 0.11 (shown by …); 2 scrapes, 1 restart`. */
function dialectLine({ dialects, versions, scrapes, restarts }: Report): string {
  const spoken = dialects.map((name) => {
    const version = versions.find(({ of }) => of === name);
    if (version === undefined) return name;
    return version.toldBy === ""
      ? `${name} (version not recognised: assumed to be ${version.span})`
      : `${name} ${version.span} (shown by ${version.toldBy})`;
  });
  const dialectNames = spoken.length === 0 ? "unknown" : spoken.join(" · ");
  const restarted = restarts > 0 ? `, ${restarts} restart${restarts > 1 ? "s" : ""}` : "";
  return `dialect   ${dialectNames}; ${scrapes} scrape${scrapes === 1 ? "" : "s"}${restarted}`;
}

/** Prints the laws that are not violated, one row each. The laws of an absent dialect share one row. */
function others(report: Report): string[] {
  const rest = report.laws.filter(({ verdict }) => verdict !== "violated");
  const judged = rest.filter(({ verdict, reason }) => verdict !== "not checkable" || !isAbsent(reason));
  const absent = Map.groupBy(
    rest.filter((law) => !judged.includes(law)),
    ({ reason }) => reason,
  );
  return [
    ...judged.flatMap((law) => [rowOf(law), ...detailsOf(law)]),
    ...[...absent].map(([reason, laws]) => `  ${"–".padEnd(9)} ${laws[0]!.id}–${laws.at(-1)!.id}  ${reason}`),
  ];
}

/** Sums up the verdicts: `51 of 110 laws applicable: 50 held, 1 violated, …`. */
export function verdictSummary(report: Report): string {
  const { laws } = report;
  const count = (expected: Verdict) => laws.filter(({ verdict }) => verdict === expected).length;
  const warnings = laws.filter(
    ({ verdict, violations }) => verdict === "violated" && violations.every(({ severity }) => severity !== "E"),
  );
  const violated = count("violated");
  const mild = warnings.length > 0 ? ` (${warnings.length} of them warnings)` : "";
  const ids = `${report.applicable} of ${laws.length} laws applicable`;
  return `${ids}: ${count("held")} held, ${violated} violated${mild}, ${count("note")} note${count("note") === 1 ? "" : "s"}, ${count("not checkable")} not checkable`;
}

const isAbsent = (reason: string): boolean => / metrics here$/.test(reason);

function rowOf({ id, verdict, sentence, reason }: LawResult): string {
  const why =
    verdict === "not checkable" || (verdict === "held" && /^(one-sided|in part)/.test(reason)) ? ` (${reason})` : "";
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
    const hints = violations.map((violation) => violation.looksLike ?? looksLike);
    for (const hint of new Set(hints)) if (hint !== "") lines.push(`${INDENT}Looks like: ${hint}`);
  }
  for (const { known, ...note } of notes.slice(0, 1))
    lines.push(`${INDENT}${comparison(note)}  [${where(note)}]`, `${INDENT}${known}`);
  return lines;
}

/** Prints a violation: `left = 3, must be ≤ right = 2`. If `relation` is empty, `left.text` is the whole sentence. */
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

/** Prints a time of day in UTC if the value counts from 1970, else the number of seconds. */
function time(atS: number): string {
  return atS > 1e9 ? new Date(atS * 1000).toISOString().slice(11, 23) : `${Math.round(atS * 1000) / 1000} s`;
}

/** Converts NaN and the infinities to strings, because JSON has no numbers for them. */
const finiteOrText = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? numberText(value) : value;

export function json(targets: readonly CheckedTarget[], demands: CheckDemands = {}): string {
  const counted = targets.map(({ name, report }) => {
    const { errors, warnings, ...rest } = report;
    return { name, report: { ...rest, errors: errors.length, warnings: warnings.length } };
  });
  const report = { schema: "understudy-check/1", exitCode: exitCode(targets, demands), targets: counted };
  return `${printableJson(report, 2, finiteOrText)}\n`;
}

/** Prints JUnit XML: a suite per target, a case per law. A law with only warnings passes, with the warnings in system-out. */
export function junit(targets: readonly CheckedTarget[], { requireDialect = false }: CheckDemands = {}): string {
  const suites = targets.map(({ name, report }) => {
    const cases = report.laws.map((law) => caseOf(name, law));
    const { generalOnly } = report;
    const lacks = requireDialect && generalOnly !== null;
    if (generalOnly !== null) {
      const message = `message="${xml(`only general laws could be judged (${generalOnly})`)}"`;
      const verdict = lacks ? `<error ${message}/>` : `<skipped ${message}/>`;
      cases.push(`    <testcase classname="${xml(name)}" name="dialect">${verdict}</testcase>`);
    }
    for (const { why } of report.unreadable) {
      cases.push(`    <testcase classname="${xml(name)}" name="scrape"><error message="${xml(why)}"/></testcase>`);
    }
    const unjudged = report.laws.filter(({ verdict }) => verdict === "not checkable").length;
    const skipped = unjudged + Number(generalOnly !== null && !lacks);
    const errors = report.unreadable.length + Number(lacks);
    const counts = `tests="${cases.length}" failures="${report.errors.length}" errors="${errors}" skipped="${skipped}"`;
    return [`  <testsuite name="${xml(name)}" ${counts}>`, ...cases, "  </testsuite>"].join("\n");
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", ...suites, "</testsuites>", ""].join("\n");
}

function caseOf(target: string, law: LawResult): string {
  const open = `    <testcase classname="${xml(target)}" name="${xml(`${law.id}: ${law.sentence}`)}"`;
  if (law.verdict === "not checkable") return `${open}><skipped message="${xml(law.reason)}"/></testcase>`;
  const words = [
    ...law.violations.map((violation) => `${comparison(violation)} [${where(violation)}]`),
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
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/gu, "\ufffd")
      // Escape control and format characters, which a terminal that shows the file would execute.
      .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}](?<![\t\n\r])/gu, (char) => `&#x${char.codePointAt(0)!.toString(16)};`)
  );
}

/** The report of a stress run as JUnit's XML: a test per case, a failure where it is red, or differs from what was expected. */
import type { CaseResult } from "./result.ts";
import { isRed } from "./verdict.ts";

/** `expected`: verdicts by plan, of which only others fail; null: red ones do. */
export function junitOf(results: readonly CaseResult[], expected: ReadonlyMap<string, string> | null): string {
  const failed = (one: CaseResult) => (expected === null ? isRed(one.verdict) : expected.get(one.plan) !== one.verdict);
  const skipped = ({ verdict }: CaseResult) => verdict === "void";
  const count = (which: (one: CaseResult) => boolean) => results.filter(which).length;
  const seconds = results.reduce((sum, { ms }) => sum + ms, 0) / 1000;
  const cases = results.map((one) => {
    const name = `name="${markupText(one.plan)}" classname="understudy.stress" time="${(one.ms / 1000).toFixed(3)}"`;
    if (failed(one))
      return `  <testcase ${name}><failure type="${one.verdict}" message="${markupText(`${one.fault}. ${one.why}`)}"/></testcase>`;
    return skipped(one) ? `  <testcase ${name}><skipped/></testcase>` : `  <testcase ${name}/>`;
  });
  const counts = `tests="${results.length}" failures="${count(failed)}" skipped="${count((one) => skipped(one) && !failed(one))}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="understudy stress" ${counts} time="${seconds.toFixed(3)}">`,
    ...cases,
    "</testsuite>\n",
  ].join("\n");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "<": "&lt;",
  ">": "&gt;",
  "&": "&amp;",
  '"': "&quot;",
  "'": "&apos;",
};

/** What XML and HTML take as text and in attributes; characters that XML does not have become a dot. */
export const markupText = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those that XML 1.0 does not take.
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, "·")
    .replace(/[<>&"']/g, (one) => ENTITIES[one]!)
    // A terminal obeys these, if the file is one.
    .replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `&#x${one.codePointAt(0)!.toString(16)};`);

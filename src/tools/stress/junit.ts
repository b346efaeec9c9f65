/** Prints a stress run as JUnit XML: a test per case, which fails if the verdict is red, or differs from the expected one. */
import type { CaseResult } from "./result.ts";
import { isRed } from "./verdict.ts";

/** Returns the XML. `expected`: verdicts by plan; only cases with another verdict fail. Null: red cases fail. */
export function junitOf(results: readonly CaseResult[], expected: ReadonlyMap<string, string> | null): string {
  const failed = (result: CaseResult) =>
    expected === null ? isRed(result.verdict) : expected.get(result.plan) !== result.verdict;
  const skipped = ({ verdict }: CaseResult) => verdict === "void";
  const count = (which: (result: CaseResult) => boolean) => results.filter(which).length;
  const seconds = results.reduce((sum, { ms }) => sum + ms, 0) / 1000;
  const cases = results.map((result) => {
    const name = `name="${markupText(result.plan)}" classname="understudy.stress" time="${(result.ms / 1000).toFixed(3)}"`;
    if (failed(result))
      return `  <testcase ${name}><failure type="${result.verdict}" message="${markupText(`${result.fault}. ${result.why}`)}"/></testcase>`;
    return skipped(result) ? `  <testcase ${name}><skipped/></testcase>` : `  <testcase ${name}/>`;
  });
  const counts = `tests="${results.length}" failures="${count(failed)}" skipped="${count((result) => skipped(result) && !failed(result))}"`;
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

/** Escapes text for XML and HTML, also inside attributes. Characters that XML does not have become a dot. */
export const markupText = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those that XML 1.0 does not take.
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, "·")
    .replace(/[<>&"']/g, (character) => ENTITIES[character]!)
    // Escape control and format characters, which a terminal that shows the file would execute.
    .replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `&#x${character.codePointAt(0)!.toString(16)};`);

/** How does a report of a stress run look? */
import { printable } from "../host/printable.ts";
import type { CaseResult } from "./result.ts";
import { isRed, VERDICTS } from "./verdict.ts";

/** Characters of a reason in the table. */
const WHY_MOST = 200;

/** What is left of a red plan, and in how many runs that was found. */
export interface ShrunkCase {
  readonly plan: string;
  readonly verdict: string;
  readonly line: string;
  readonly runs: number;
}

/** The red cases, each with the line that orders it again, and how many there are of each verdict. */
export function stressTable(results: readonly CaseResult[], shrunk: readonly ShrunkCase[] = [], notCalled = 0): string {
  const red = results.filter(({ verdict }) => isRed(verdict));
  const wide = Math.max(0, ...red.map(({ verdict }) => verdict.length));
  const wider = Math.max(0, ...red.map(({ plan }) => plan.length));
  const lines = red.map(
    ({ verdict, plan, why }) => `${verdict.padEnd(wide)}  ${plan.padEnd(wider)}  ${printable(why.slice(0, WHY_MOST))}`,
  );
  const counts = VERDICTS.map((name) => [name, results.filter(({ verdict }) => verdict === name).length] as const);
  const sum = counts.flatMap(([name, count]) => (count === 0 ? [] : [`${count} ${name}`])).join(", ");
  const smaller = shrunk.map(
    ({ plan, verdict, line, runs }) => `${verdict}: ${plan} comes down to ${line} (${runs} runs)`,
  );
  const onWire = results.filter(({ by }) => by === "wire").length;
  const by = onWire === 0 ? [] : [`${onWire} of them by the wire alone: nobody posted what was seen`];
  const left = notCalled === 0 ? [] : [`${notCalled} cases were not called`];
  const again = red.length === 0 ? [] : [`one of them again, as the first: --replay '${red[0]!.plan}'`];
  return [
    ...lines,
    ...smaller,
    `${results.length} ${results.length === 1 ? "case" : "cases"}: ${sum}`,
    ...by,
    ...left,
    ...again,
  ].join("\n");
}

/** What is not as it was expected, a line each. */
export function unexpected(results: readonly CaseResult[], expected: ReadonlyMap<string, string>): string[] {
  return results.flatMap(({ plan, verdict }) => {
    const known = expected.get(plan);
    if (known === verdict) return [];
    return [`${plan}: ${verdict}, expected ${known === undefined ? "nothing, it is new" : `was ${known}`}`];
  });
}

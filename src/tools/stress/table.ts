/** Prints a stress run as text. */
import { printable } from "../../base/printable.ts";
import type { CaseResult } from "./result.ts";
import { isRed, VERDICTS } from "./verdict.ts";

/** Maximum number of characters of a reason. */
const WHY_MOST = 400;

/** A reduced red plan, and the number of runs that the reduction took. */
export interface ShrunkCase {
  readonly plan: string;
  readonly verdict: string;
  readonly line: string;
  readonly runs: number;
}

/**
 * Returns the report of a run. First comes a line for each red case with its plan, its fault and the reason. Then come the
 * number of cases per verdict, and the command that repeats the first red case. `again` returns that command for a plan.
 */
export function stressTable(
  results: readonly CaseResult[],
  again: (plan: string) => string,
  shrunk: readonly ShrunkCase[] = [],
  notCalled = 0,
): string {
  const red = results.filter(({ verdict }) => isRed(verdict));
  const seed = commonSeed(red);
  const named = (plan: string) => (seed === null ? plan : plan.slice(0, -seed.length));
  const wide = Math.max(0, ...red.map(({ verdict }) => verdict.length));
  const lines = red.map(
    ({ verdict, plan, fault, why }) =>
      `${verdict.padEnd(wide)}  ${named(plan)} ${printable(`${fault}. ${why}`.slice(0, WHY_MOST))}`,
  );
  const counts = VERDICTS.map((name) => [name, results.filter(({ verdict }) => verdict === name).length] as const);
  const sum = counts.flatMap(([name, count]) => (count === 0 ? [] : [`${count} ${name}`])).join(", ");
  const smaller = shrunk.map(
    ({ plan, verdict, line, runs }) => `${verdict}: ${plan} was reduced to ${line} in ${runs} runs.`,
  );
  const onWire = results.filter(({ by }) => by === "wire").length;
  const by = onWire === 0 ? [] : [`${onWire} judged by the wire alone: nobody reported what the client saw.`];
  const left = notCalled === 0 ? [] : [`${notCalled} cases were not called.`];
  const others = red.length < 2 ? "" : ` (for another case, use its plan${seed === null ? "" : `, with ${seed}`})`;
  const repeat = red.length === 0 ? [] : [`To repeat the first red case${others}:`];
  return [
    ...lines,
    ...smaller,
    `${results.length} ${results.length === 1 ? "case" : "cases"}: ${sum}`,
    ...by,
    ...left,
    ...repeat,
    ...red.slice(0, 1).map(({ plan }) => `  ${again(plan)}`),
  ].join("\n");
}

/** Returns `#seed=…` if all plans end with the same seed, else null. */
function commonSeed(results: readonly CaseResult[]): string | null {
  const ends = new Set(results.map(({ plan }) => plan.slice(plan.indexOf("#"))));
  const [end] = ends;
  return ends.size === 1 ? end! : null;
}

/** Returns a line for each case whose verdict differs from the expected one. */
export function unexpected(results: readonly CaseResult[], expected: ReadonlyMap<string, string>): string[] {
  return results.flatMap(({ plan, verdict }) => {
    const known = expected.get(plan);
    if (known === verdict) return [];
    return [`${plan}: ${verdict}, expected ${known === undefined ? "nothing, it is new" : `was ${known}`}`];
  });
}

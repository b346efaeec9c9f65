/** Describes plans and faults in words for `understudy fault`. */
import { exampleOf } from "./example.ts";
import { describeParameters } from "./parse.ts";
import type { FaultRow, Plan, PlannedFault, Position } from "./plan/types.ts";
import { faultRulesOf, plannedRule } from "./rows/row.ts";

/**
 * Returns the text of `understudy fault explain`: the plan's faults and an example. A `>` marks lines that the example has only
 * because of the plan.
 */
export function explainPlan(plan: Plan): string {
  const words = plan.faults.map((fault) => {
    const { what, oracle, text } = plannedRule(fault);
    const where = `${whereOf(fault.position)}${valuesOf(fault)}`;
    return `${fault.row.id}, stage ${fault.row.stage}: ${what}\n    ${where}\n    a correct client: ${oracle} (${text})`;
  });
  const { title, lines, plainLines, idle } = exampleOf(plan);
  const plain = new Set(plainLines);
  return [
    ...words,
    "",
    `${title}:`,
    ...lines.map((line) => (plain.has(line) ? line : `>${line.slice(1)}`)),
    ...idle.map((fault) => `${fault} did not act: this example has no such position, or ends before it`),
  ].join("\n");
}

function whereOf({ kind, at, offset, count }: Position): string {
  const places = {
    head: "before the head; for faults of events, at the first event",
    event: `before event ${at}`,
    byte: `before byte ${at} of the body`,
    done: "at the last event",
    every: "at every event",
    drawn: `at an event drawn among the first ${at}`,
    chance: `at each event with a chance of ${at}`,
  };
  return `${places[kind]}${offset === null ? "" : `, byte ${offset}`}${count > 1 ? `, ${count} events in a row` : ""}`;
}

const valuesOf = ({ values }: PlannedFault): string =>
  Object.entries(values)
    .map(([name, value]) => `; ${name}=${value}`)
    .join("");

/** A fault, or one variant of a fault, as `understudy fault` lists it. */
export interface ListedFault {
  /** Name of the fault as in a plan, such as `B2,lines`. */
  readonly fault: string;
  readonly stage: string;
  readonly what: string;
  readonly oracle: string;
  readonly text: string;
  /** Sentence about the parameters that a plan writes after the fault's position. */
  readonly takes: string;
  /** False if the fault is an act of a client, such as a disconnect, which a plan cannot order. */
  readonly ordered: boolean;
}

/** Returns an entry for each variant of each fault. */
export function listFaults(rows: Iterable<FaultRow>): ListedFault[] {
  return [...rows].flatMap((row) =>
    faultRulesOf(row).map(({ way, rule: { what, oracle, text } }) => ({
      fault: way === "" ? row.id : `${row.id},${way}`,
      stage: row.stage,
      what,
      oracle,
      text,
      takes: describeParameters(row),
      ordered: row.stage !== "client",
    })),
  );
}

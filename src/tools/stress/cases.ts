/** The cases of a stress run: a plan each, and what a client may do with it. */

import { rowsNamed } from "../../faults/order.ts";
import { parsePlan, plainFault } from "../../faults/parse.ts";
import { FaultDraws } from "../../faults/plan/draws.ts";
import type { FaultRow, FaultRule, Plan } from "../../faults/plan/types.ts";
import { actsOn, faultRulesOf, plannedRule } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";

export interface StressCase {
  readonly id: string;
  readonly plan: Plan;
  /** The line of the plan. */
  readonly line: string;
  /** What the plan's faults write: noun phrases with semicolons between them. */
  readonly what: string;
  /** So many requests of the case are disturbed; those behind are clean, so that trying again helps. */
  readonly disturbed: number;
  /** What the client may do, by the rules of the plan's faults: the loosest of them. */
  readonly allows: FaultRule["allows"];
  /** So many times the client asks, one behind the other over the same connections, or all at once. */
  readonly asks: number;
  readonly atOnce: boolean;
  /** True if the answer is two tool calls, in the chat dialect. */
  readonly withTools: boolean;
  /** True if the answer begins with reasoning, in the chat dialect. */
  readonly withReasoning: boolean;
  /** Cases with less of the same, and with nothing of it: work may not grow faster than bytes. null: that is not looked at. */
  readonly less: { readonly small: StressCase; readonly clean: StressCase } | null;
}

/** Short times, so that a run is a minute: by id, or id and word. */
const SHORT: Readonly<Record<string, string>> = {
  B6: "bytes=16",
  S5: "for=600ms,every=100ms",
  S13: "bytes=1MB",
  T1: "for=600ms",
  T2: "for=4s",
  T3: "rate=20000",
  T5: "median=2ms",
  T7: "for=600ms,every=100ms",
  E3: "for=8s",
  H7: "bytes=700",
};

/** Faults that need tool calls to act on. */
const TOOL_FAULTS = ["J7", "J16"];
/** Faults from which trying again helps. */
const PASSING = ["A1", "A2", "A5", "E8"];
/** What one answer cannot show: a connection that is used again; requests that meet, each a while under way. */
const MEETING: Readonly<Record<string, { readonly more: string; readonly asks: number; readonly atOnce: boolean }>> = {
  E9: { more: "", asks: 2, atOnce: false },
  A3: { more: ";T4,events=4,pause=60ms", asks: 4, atOnce: true },
};
/** Plans by what grows in them: a lot, a quarter of it, nothing. Small segments, so that whoever begins anew with each is seen. */
const GROWING: readonly (readonly [large: string, small: string, clean: string])[] = [
  [
    "S12@e5,bytes=2MiB;H7,bytes=16KiB,for=10ms",
    "S12@e5,bytes=512KiB;H7,bytes=16KiB,for=10ms",
    "H7,bytes=16KiB,for=10ms",
  ],
];

/**
 * Returns the cases of `names`: ids, `B*`, or whole plans; all faults in each of their ways if the list is empty. A case that
 * is named twice is returned once.
 */
export function stressCases(names: readonly string[], seed: number): StressCase[] {
  const plans = names.filter((name) => /[@,;#]/.test(name));
  const ids = names.filter((name) => !plans.includes(name));
  const rows = names.length === 0 ? allRows() : rowsNamed(ids);
  const grown = GROWING.filter(([large]) => names.length === 0 || ids.includes(large.split("@")[0]!));
  const lines = [...rows.flatMap(linesOf), ...grown.map(([large]) => large), ...plans];
  return distinct(lines.map((line) => stressCase(line, seed)));
}

/** Removes later cases with the same id: two of them would share one address. */
export function distinct(cases: readonly StressCase[]): StressCase[] {
  return [...new Map(cases.map((one) => [one.id, one])).values()];
}

/** Reports whether a client is judged in no way of the fault. */
export const isOpenRow = (row: FaultRow): boolean => faultRulesOf(row).every(({ rule }) => rule.allows === "policy");

const ID_CHARACTERS = 60;
const allRows = () => [...FAULT_ROWS.values()].filter((row) => row.stage !== "client" && actsOn(row, "1.1"));

function linesOf(row: FaultRow): string[] {
  const place = plainFault(row).position.kind === "drawn" ? "@?12" : "";
  const ways = faultRulesOf(row).map(({ way }) => way);
  const usable = ways.filter((way) => !(row.id === "E8" && way === "accept"));
  const more = MEETING[row.id]?.more ?? "";
  return usable.map((way) => [`${row.id}${place}`, way, SHORT[row.id] ?? ""].filter(Boolean).join(",") + more);
}

/**
 * Returns a case's name in an address: the readable part of its faults, its seed, and a hash of both. Draws follow from the
 * name, so it depends on the faults, the seed and the key only, not on how the line spells them.
 */
function idOf(faults: string, { seed, key }: Plan): string {
  const text = key === null ? faults : `${faults}#key=${key}`;
  const number = new FaultDraws(seed, text).below(0, 0, 36 ** 5);
  return `${faults.replace(/[^A-Za-z0-9]+/g, "-").slice(0, ID_CHARACTERS)}-${seed}-${number.toString(36)}`;
}

/** Returns the case of a plan's line. `seed` holds if the line states none. Throws `BrokenPlan`. */
export function stressCase(line: string, seed: number): StressCase {
  const [faults = "", options] = line.split("#");
  const statesSeed = options !== undefined && /(^|,)seed=/.test(options);
  const read = parsePlan(line);
  const plan = statesSeed ? read : { ...read, seed };
  const key = plan.key === null ? "" : `,key=${encodeURIComponent(plan.key)}`;
  const ids = plan.faults.map(({ row }) => row.id);
  const allowed = plan.faults.map((fault) => plannedRule(fault).allows);
  const passes = ids.some((id) => PASSING.includes(id));
  const meeting = ids.map((id) => MEETING[id]).find((one) => one !== undefined);
  const grown = GROWING.find(([large]) => large === faults);
  return {
    id: idOf(faults, plan),
    plan,
    line: `${faults}#seed=${plan.seed}${key}`,
    disturbed: passes || ids.includes("E9") ? 1 : Number.POSITIVE_INFINITY,
    what: plan.faults.map((fault) => plannedRule(fault).what).join("; "),
    allows: (["policy", "either"] as const).find((one) => allowed.includes(one)) ?? null,
    asks: meeting?.asks ?? 1,
    atOnce: meeting?.atOnce ?? false,
    withTools: ids.some((id) => TOOL_FAULTS.includes(id)),
    withReasoning: ids.includes("J19"),
    less:
      grown === undefined ? null : { small: stressCase(grown[1], plan.seed), clean: stressCase(grown[2], plan.seed) },
  };
}

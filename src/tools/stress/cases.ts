/** The cases of a stress run. Each has a fault plan and the rules for the client. */

import { rowsNamed } from "../../faults/order.ts";
import { parsePlan, plainFault } from "../../faults/parse.ts";
import { FaultDraws } from "../../faults/plan/draws.ts";
import type { FaultRow, FaultRule, Plan } from "../../faults/plan/types.ts";
import { actsOn, faultRulesOf, plannedRule } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";

export interface StressCase {
  readonly id: string;
  readonly plan: Plan;
  /** Text of the plan, as the command line accepts it. */
  readonly line: string;
  /** The bytes that the plan's faults produce, as noun phrases separated by semicolons. */
  readonly what: string;
  /** Number of requests that are disturbed. Later requests get a clean answer, so that a retry succeeds. */
  readonly disturbed: number;
  /** The loosest rule among the plan's faults: which reactions of the client are accepted. */
  readonly allows: FaultRule["allows"];
  /** Number of times that the client is asked, one after another over the same connections, or all at once. */
  readonly asks: number;
  readonly atOnce: boolean;
  /** True if the answer is two tool calls. Only in the chat dialect. */
  readonly withTools: boolean;
  /** True if the answer begins with reasoning. Only in the chat dialect. */
  readonly withReasoning: boolean;
  /**
   * Two cases with less of the same disturbance, and without it. They show whether the client's work grows faster than the
   * bytes. Null: growth is not measured.
   */
  readonly less: { readonly small: StressCase; readonly clean: StressCase } | null;
}

/** Parameters that keep a run within a minute, by fault id, or by id and word. */
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

/** Faults that only affect answers with tool calls. */
const TOOL_FAULTS = ["J7", "J16"];
/** Faults after which a retry succeeds. */
const PASSING = ["A1", "A2", "A5", "E8"];
/**
 * Faults that one request cannot show: they need a reused connection, or several requests at the same time that each take a
 * while.
 */
const MEETING: Readonly<Record<string, { readonly more: string; readonly asks: number; readonly atOnce: boolean }>> = {
  E9: { more: "", asks: 2, atOnce: false },
  A3: { more: ";T4,events=4,pause=60ms", asks: 4, atOnce: true },
};
/**
 * Plans that measure growth: with a large disturbance, a quarter of it, and none. Segments are small, so that a client shows
 * itself if it starts over with each.
 */
const GROWING: readonly (readonly [large: string, small: string, clean: string])[] = [
  [
    "S12@e5,bytes=2MiB;H7,bytes=16KiB,for=10ms",
    "S12@e5,bytes=512KiB;H7,bytes=16KiB,for=10ms",
    "H7,bytes=16KiB,for=10ms",
  ],
];

/**
 * Returns the cases of `names`: ids, `B*`, or whole plans. If the list is empty, returns all faults in each of their variants.
 * A case that is named twice is returned once.
 */
export function stressCases(names: readonly string[], seed: number): StressCase[] {
  const plans = names.filter((name) => /[@,;#]/.test(name));
  const ids = names.filter((name) => !plans.includes(name));
  const rows = names.length === 0 ? allRows() : rowsNamed(ids);
  const grown = GROWING.filter(([large]) => names.length === 0 || ids.includes(large.split("@")[0]!));
  const lines = [...rows.flatMap(linesOf), ...grown.map(([large]) => large), ...plans];
  return distinct(lines.map((line) => stressCase(line, seed)));
}

/** Removes later cases with the same id, because they would have the same URL. */
export function distinct(cases: readonly StressCase[]): StressCase[] {
  return [...new Map(cases.map((stressCase) => [stressCase.id, stressCase])).values()];
}

/** Reports whether no variant of the fault is judged. */
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
 * Returns the case's name in its URL: the readable part of its faults, its seed, and a hash of both. Random draws follow from
 * the name, so it depends only on the faults, the seed and the key, not on their spelling.
 */
function idOf(faults: string, { seed, key }: Plan): string {
  const text = key === null ? faults : `${faults}#key=${key}`;
  const number = new FaultDraws(seed, text).below(0, 0, 36 ** 5);
  return `${faults.replace(/[^A-Za-z0-9]+/g, "-").slice(0, ID_CHARACTERS)}-${seed}-${number.toString(36)}`;
}

/** Returns the case of a plan's text. `seed` is used if the text has none. Throws `BrokenPlan`. */
export function stressCase(line: string, seed: number): StressCase {
  const [faults = "", options] = line.split("#");
  const statesSeed = options !== undefined && /(^|,)seed=/.test(options);
  const read = parsePlan(line);
  const plan = statesSeed ? read : { ...read, seed };
  const key = plan.key === null ? "" : `,key=${encodeURIComponent(plan.key)}`;
  const ids = plan.faults.map(({ row }) => row.id);
  const allowed = plan.faults.map((fault) => plannedRule(fault).allows);
  const passes = ids.some((id) => PASSING.includes(id));
  const meeting = ids.map((id) => MEETING[id]).find((rule) => rule !== undefined);
  const growthPlan = GROWING.find(([large]) => large === faults);
  return {
    id: idOf(faults, plan),
    plan,
    line: `${faults}#seed=${plan.seed}${key}`,
    disturbed: passes || ids.includes("E9") ? 1 : Number.POSITIVE_INFINITY,
    what: plan.faults.map((fault) => plannedRule(fault).what).join("; "),
    allows: (["policy", "either"] as const).find((rule) => allowed.includes(rule)) ?? null,
    asks: meeting?.asks ?? 1,
    atOnce: meeting?.atOnce ?? false,
    withTools: ids.some((id) => TOOL_FAULTS.includes(id)),
    withReasoning: ids.includes("J19"),
    less:
      growthPlan === undefined
        ? null
        : { small: stressCase(growthPlan[1], plan.seed), clean: stressCase(growthPlan[2], plan.seed) },
  };
}

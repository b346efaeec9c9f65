/** What do those need that order faults? One module, loaded when the first plan comes. */
import { FaultDraws } from "./draws.ts";
import { plainFault } from "./parse.ts";
import { FAULT_ROWS } from "./table.ts";
import type { FaultRow, Plan, PlannedFault } from "./types.ts";

export { insteadOf } from "./instead.ts";
export { BrokenPlan, parsePlan } from "./parse.ts";

/** Faults that answer requests by themselves stay away unless they are named: they are no streams. */
const usual = ({ stage, reaches, http }: FaultRow) =>
  stage !== "client" && stage !== "instead" && reaches === "answer" && http !== "2";

/** With HTTP/2 other answers share the connection. */
const ENDS_CONNECTION = ["E6", "E7", "E8", "E9", "T2"];

/** Does it reach more than its own answer? */
export function reachesOthers({ row, values }: PlannedFault, http2: boolean): boolean {
  if (row.id === "E10") return values.how !== "reset";
  return row.reaches === "others" || (http2 && ENDS_CONNECTION.includes(row.id));
}

/** Rows that such names mean: `B8`, or `B*` for all of a letter that answers may have; none: all of these. */
export function rowsNamed(names: readonly string[]): FaultRow[] {
  const rows = [...FAULT_ROWS.values()];
  if (names.length === 0) return rows.filter(usual);
  return names.flatMap((name) =>
    name.endsWith("*")
      ? rows.filter((row) => row.id[0] === name[0] && usual(row))
      : rows.filter(({ id }) => id === name),
  );
}

/** A plan of one fault for this share of the requests; null: this one is spared. */
export function planByChance(share: number, names: readonly string[], seed: number, key: string): Plan | null {
  const draws = new FaultDraws(seed, key);
  if (draws.fraction(-1, 0) >= share) return null;
  const rows = rowsNamed(names);
  return { faults: [plainFault(rows[draws.below(-1, 1, rows.length)]!)], seed, key: null };
}

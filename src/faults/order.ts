/** What do those need that order faults? One module, loaded when the first plan comes. */

import { plainFault } from "./parse.ts";
import { FaultDraws } from "./plan/draws.ts";
import type { FaultCarrier, FaultRow, Plan, PlannedFault } from "./plan/types.ts";
import { actsOn } from "./rows/row.ts";
import { FAULT_ROWS } from "./table.ts";

export { insteadOf } from "./instead.ts";
export { BrokenPlan, parsePlan } from "./parse.ts";

/** With HTTP/2 other answers share the connection. */
const ENDS_CONNECTION = ["E6", "E7", "E8", "E9", "T2"];
/** Where no byte is named it acts on characters of several bytes, which messages need not have. */
const ON_CHARACTERS = "B1";

/** Does it reach more than its own answer? */
export function reachesOthers({ row, values }: PlannedFault, http2: boolean): boolean {
  if (row.id === "E10") return values.how !== "reset";
  return row.reaches === "others" || (http2 && ENDS_CONNECTION.includes(row.id));
}

/** Faults that answer requests by themselves stay away unless they are named: they are no streams. */
function isUsual(row: FaultRow, over: FaultCarrier): boolean {
  if (row.stage === "client" || row.stage === "instead" || row.reaches === "others") return false;
  return actsOn(row, over) && !(over === "grpc" && [...ENDS_CONNECTION, ON_CHARACTERS].includes(row.id));
}

/** Rows that such names mean: `B8`, or `B*` for all of a letter that answers may have; none: all of these. */
export function rowsNamed(names: readonly string[], over: FaultCarrier = "1.1"): FaultRow[] {
  const rows = [...FAULT_ROWS.values()];
  if (names.length === 0) return rows.filter((row) => isUsual(row, over));
  return names.flatMap((name) =>
    name.endsWith("*")
      ? rows.filter((row) => row.id[0] === name[0] && isUsual(row, over))
      : rows.filter(({ id }) => id === name),
  );
}

/** A plan of one fault for this share of the requests; null: this one is spared, or none of them acts there. */
export function planByChance(
  share: number,
  names: readonly string[],
  seed: number,
  key: string,
  over: FaultCarrier = "1.1",
): Plan | null {
  const draws = new FaultDraws(seed, key);
  if (draws.fraction(-1, 0) >= share) return null;
  const rows = rowsNamed(names, over);
  if (rows.length === 0) return null;
  return { faults: [plainFault(rows[draws.below(-1, 1, rows.length)]!)], seed, key: null };
}

/**
 * Exports everything that a server or proxy needs to order faults. It is one module, so that it can be loaded with the first
 * plan.
 */

import { plainFault } from "./parse.ts";
import { FaultDraws } from "./plan/draws.ts";
import type { FaultCarrier, FaultRow, Plan, PlannedFault } from "./plan/types.ts";
import { actsOn } from "./rows/row.ts";
import { FAULT_ROWS } from "./table.ts";

export { substituteAnswer } from "./instead.ts";
export { BrokenPlan, parsePlan } from "./parse.ts";

/** Ids of faults that end the connection. An HTTP/2 connection may also carry other answers. */
const ENDS_CONNECTION = ["E6", "E7", "E8", "E9", "T2"];
/** Id of the fault that cuts multi-byte characters unless its plan names a byte. gRPC messages may have no such characters. */
const ON_CHARACTERS = "B1";

/** Returns true if the fault also affects connections or answers other than its own. */
export function reachesOthers({ row, values }: PlannedFault, http2: boolean): boolean {
  if (row.id === "E10") return values.how !== "reset";
  return row.reaches === "others" || (http2 && ENDS_CONNECTION.includes(row.id));
}

/**
 * Returns true for the faults that the name `B*` or an empty list of names selects. Excludes faults that replace the answer,
 * because such an answer is not a stream.
 */
function isUsual(row: FaultRow, over: FaultCarrier): boolean {
  if (row.stage === "client" || row.stage === "instead" || row.reaches === "others") return false;
  return actsOn(row, over) && !(over === "grpc" && [...ENDS_CONNECTION, ON_CHARACTERS].includes(row.id));
}

/**
 * Returns the rows of faults. `names`: an id such as `B8`, or `B*` for all usual faults of a letter. An empty list selects all
 * usual faults.
 */
export function rowsNamed(names: readonly string[], over: FaultCarrier = "1.1"): FaultRow[] {
  const rows = [...FAULT_ROWS.values()];
  if (names.length === 0) return rows.filter((row) => isUsual(row, over));
  return names.flatMap((name) =>
    name.endsWith("*")
      ? rows.filter((row) => row.id[0] === name[0] && isUsual(row, over))
      : rows.filter(({ id }) => id === name),
  );
}

/**
 * Draws a plan of one fault for this share of the requests. Returns null if the request is spared, or if no named fault
 * can act on this carrier.
 */
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

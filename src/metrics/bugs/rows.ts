/** Replaces the rows of the families that bug modes affect. Without bug modes, the table is unchanged. */
import type { Identity } from "../rows/identity.ts";
import type { Row } from "../rows/table.ts";
import { bugs } from "./table.ts";

export function withBugs(rows: readonly Row[], identity: Identity): readonly Row[] {
  if (identity.bugs.length === 0) return rows;
  const on = identity.bugs.map((name) => bugs[name]);
  return rows.map((row) =>
    // Matches the name that the row has without bugs.
    on.reduce((changed, bug) => (bug.row && bug.families.includes(row.name) ? bug.row(changed) : changed), row),
  );
}

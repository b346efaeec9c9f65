/** How does a table look with bug modes on? Their families' rows are replaced; without one it is the same table. */
import type { Identity } from "../rows/identity.ts";
import type { Row } from "../rows/table.ts";
import { bugs } from "./table.ts";

export function withBugs(rows: readonly Row[], identity: Identity): readonly Row[] {
  if (identity.bugs.length === 0) return rows;
  const on = identity.bugs.map((name) => bugs[name]);
  return rows.map((row) =>
    // By the name that the row has without any.
    on.reduce((made, bug) => (bug.row && bug.families.includes(row.name) ? bug.row(made) : made), row),
  );
}

/**
 * Finds families without a TYPE line on a page that has TYPE lines for others. Prometheus treats such a family as a gauge or
 * as unknown.
 */
import type { GapTracker } from "./excerpt.ts";
import type { Exposition, ScrapedFamily } from "./exposition.ts";

const PARTS = /_(bucket|sum|count|total|created|gsum|gcount|info)$/;

/**
 * Returns one defect per family. Parts of one histogram count as one family. A page without any TYPE line was probably written
 * by hand and has no defects.
 */
export function untypedFaults(
  families: Exposition["families"],
  byName: Exposition["byName"],
  typed: ReadonlySet<string>,
  gapTracker: GapTracker,
): { readonly line: number; readonly message: string }[] {
  if (typed.size === 0) return [];
  const lacking = new Map<string, ScrapedFamily>();
  for (const family of families.values()) {
    if (typed.has(family.name) || family.samples.length === 0) continue;
    const name = wholeName(family.name, families, byName, typed);
    if (!lacking.has(name)) lacking.set(name, families.get(name) ?? family);
  }
  return [...lacking].flatMap(([name, { line, help }]) => {
    // The TYPE line stands after the HELP line, or before the first sample. If lines are left out there, it may be among them.
    const isLeftOut = help === null ? gapTracker.isGapAt(line - 1) : gapTracker.isGapAt(line + 1);
    return isLeftOut ? [] : [{ line, message: `${name} has no # TYPE` }];
  });
}

function wholeName(
  name: string,
  families: Exposition["families"],
  byName: Exposition["byName"],
  typed: ReadonlySet<string>,
): string {
  const whole = name.replace(PARTS, "");
  if (whole === name || typed.has(whole)) return name;
  return families.has(whole) || byName.has(`${whole}_bucket`) ? whole : name;
}

/** Which families lack their # TYPE, on a page that has it for others? Prometheus takes them for gauges or nothing at all. */
import type { Tears } from "./excerpt.ts";
import type { Exposition, ScrapedFamily } from "./exposition.ts";

const PARTS = /_(bucket|sum|count|total|created|gsum|gcount|info)$/;

/** Parts of one histogram are one complaint. A page without any # TYPE is a text by hand, and says nothing. */
export function untypedFaults(
  families: Exposition["families"],
  byName: Exposition["byName"],
  typed: ReadonlySet<string>,
  tears: Tears,
): { readonly line: number; readonly message: string }[] {
  if (typed.size === 0) return [];
  const lacking = new Map<string, ScrapedFamily>();
  for (const family of families.values()) {
    if (typed.has(family.name) || family.samples.length === 0) continue;
    const name = wholeName(family.name, families, byName, typed);
    if (!lacking.has(name)) lacking.set(name, families.get(name) ?? family);
  }
  return [...lacking].flatMap(([name, { line, help }]) => {
    // Behind a # HELP stands the # TYPE, else before the first sample: a gap there may have taken it.
    const isLeftOut = help === null ? tears.isGapAt(line - 1) : tears.isGapAt(line + 1);
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

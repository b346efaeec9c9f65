/** Which tables make up a page, and what is its text? Runs in the worker: nothing on the loop's thread imports this. */
import Registry from "prom-client/lib/registry.js";
import type { Snapshot } from "../engine/types.ts";
import { withBugs } from "./bugs/rows.ts";
import { dialectsOf, metricsDialects, type View } from "./dialects.ts";
import { withFakes } from "./fakes.ts";
import type { Identity } from "./identity.ts";
import { printOpenMetrics } from "./openmetrics.ts";
import type { PageFormat } from "./order.ts";
import { type Collected, type Refresh, register } from "./table.ts";
import { Heads, printFamily } from "./text.ts";

/** In Triton's order. */
const TYPES = ["counter", "gauge", "histogram", "summary"] as const;

export type HeldCopies = (refresh: Refresh) => Snapshot;

/** `nowUs`: the engine's clock; it begins with the server. */
export type PrintPage = (view: View, held: HeldCopies, format?: PageFormat, nowUs?: number) => Promise<string>;

/** Returns a renderer: one registry per view, all families of a page from the copies given. */
export function pages(identity: Identity): PrintPage {
  let copies: HeldCopies;
  let seconds = 0;
  const registries = new Map<View, Registry>();
  /** By view and family, in their order. */
  const heads = new Map<View, Heads[]>();
  const registryOf = (view: View) => {
    const registry = new Registry();
    const names = new Set<string>();
    const tables = dialectsOf(view, identity).map((name) => ({
      ...metricsDialects[name],
      rows: withFakes(withBugs(metricsDialects[name].rows(identity), identity), identity, () => seconds),
    }));
    // One registry of prometheus-cpp prints by type, whoever registered a family.
    for (const type of view === "tritonserver" ? TYPES : [null]) {
      for (const { rows, style } of tables) {
        // Families that two dialects have are the first one's.
        const table = rows.filter((row) => !names.has(row.name) && (type === null || row.type === type));
        for (const row of table) names.add(row.name);
        register(table, registry, (refresh) => copies(refresh), identity, style);
      }
    }
    registries.set(view, registry);
    heads.set(view, []);
    return registry;
  };
  return async (view, held, format = "text", nowUs = 0) => {
    // Read before the first await: each row's `get` is synchronous.
    copies = held;
    seconds = nowUs / 1e6;
    const collected = (registries.get(view) ?? registryOf(view)).getMetricsAsJSON();
    const families = (await collected) as unknown as Collected[];
    if (format === "openmetrics") return printOpenMetrics(families);
    const printed = heads.get(view)!;
    return families
      .map((family, i) => {
        printed[i] ??= new Heads();
        return printFamily(family, family.style, printed[i]);
      })
      .join("");
  };
}

/** Which tables make up a page, and what is its text? Runs in the worker: nothing on the loop's thread imports this. */
import Registry from "prom-client/lib/registry.js";
import type { StepRest } from "../base/time/step-rest.ts";
import { withBugs } from "./bugs/rows.ts";
import { dialectsOf, metricsDialects, type View } from "./dialects.ts";
import { withFakes } from "./fakes.ts";
import { printOpenMetrics } from "./openmetrics.ts";
import type { PageFormat } from "./order.ts";
import type { HeldCopies } from "./rows/held.ts";
import type { Identity } from "./rows/identity.ts";
import { type Collected, type Row, register } from "./rows/table.ts";
import { Lines, printFamily } from "./rows/text.ts";
import type { Reads, Watched } from "./rows/watched.ts";

/** In Triton's order. */
const TYPES = ["counter", "gauge", "histogram", "summary"] as const;

/** `nowUs`: the engine's clock; it begins with the server. `rest` is asked before each family. */
type Print<Page> = (
  view: View,
  held: HeldCopies,
  format?: PageFormat,
  nowUs?: number,
  rest?: Pick<StepRest, "look">,
) => Promise<Page>;
export interface PrintPage extends Print<string> {
  /** The page in parts, family by family; one that has not moved is the same as last time. */
  readonly parts: Print<readonly string[]>;
}

/** Returns a renderer: one registry per view, all families of a page from the copies given. */
export function pages(identity: Identity): PrintPage {
  let copies: HeldCopies;
  let seconds = 0;
  let resting: Pick<StepRest, "look"> | undefined;
  const registries = new Map<View, Registry>();
  /** By view and family, in their order. */
  const printed = new Map<View, Printed[]>();
  /** A row is made again when something of what it read has moved. */
  const remember = (row: Row, make: () => Collected) => {
    const reads: Reads = [];
    let family: Collected | undefined;
    let [of, turn]: [Watched | undefined, number] = [undefined, 0];
    return () => {
      resting?.look();
      const { watched } = copies;
      if (watched === undefined || row.live) return make();
      if (family === undefined || of !== watched || watched.movedSince(turn, reads)) {
        family = watched.watch(reads, make);
        of = watched;
        turn = watched.turn;
      }
      return family;
    };
  };
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
        register(table, registry, (refresh) => copies(refresh), identity, style, remember);
      }
    }
    registries.set(view, registry);
    printed.set(view, []);
    return registry;
  };
  const parts: PrintPage["parts"] = async (view, held, format = "text", nowUs = 0, rest) => {
    // Read before the first await: each row's `get` is synchronous.
    copies = held;
    resting = rest;
    seconds = nowUs / 1e6;
    const collected = (registries.get(view) ?? registryOf(view)).getMetricsAsJSON();
    const families = (await collected) as unknown as Collected[];
    if (format === "openmetrics") return [printOpenMetrics(families)];
    const texts = printed.get(view)!;
    for (let i = texts.length; i < families.length; i++) texts.push(new Printed());
    return families.map((family, i) => {
      rest?.look();
      return texts[i]!.text(family);
    });
  };
  const whole: Print<string> = async (...page) => (await parts(...page)).join("");
  return Object.assign(whole, { parts });
}

/** Bytes of a page's parts. To join and to encode them anew took a third of the page's time. */
export class Encoded {
  readonly #encoder = new TextEncoder();
  #parts: readonly string[] = [];
  readonly #bytes: Uint8Array[] = [];

  /** In memory of their own. */
  of(parts: readonly string[]): Uint8Array<ArrayBuffer> {
    let length = 0;
    for (let i = 0; i < parts.length; i++) {
      if (parts[i] !== this.#parts[i]) this.#bytes[i] = this.#encoder.encode(parts[i]);
      length += this.#bytes[i]!.length;
    }
    this.#parts = parts;
    const page = new Uint8Array(length);
    let at = 0;
    for (let i = 0; i < parts.length; i++) {
      page.set(this.#bytes[i]!, at);
      at += this.#bytes[i]!.length;
    }
    return page;
  }
}

/** A family's text, which holds as long as the family does. */
class Printed {
  readonly #lines = new Lines();
  #family: Collected | null = null;
  #text = "";

  text(family: Collected): string {
    if (this.#family !== family) this.#text = printFamily(family, family.style, this.#lines);
    this.#family = family;
    return this.#text;
  }
}

/** Assembles a metrics page from its tables and prints it. Runs in the metrics thread; the event loop's thread must not import this file. */
import Registry from "prom-client/lib/registry.js";
import type { StepRest } from "../base/time/step-rest.ts";
import { withBugs } from "./bugs/rows.ts";
import { dialectsOf, isOnlyOpenMetrics, metricsDialects, styleOf, type View } from "./dialects.ts";
import { withFakes } from "./fakes.ts";
import { END, printOpenMetrics, printOpenMetricsFamily } from "./openmetrics.ts";
import type { PageFormat } from "./order.ts";
import type { CopiesByRefresh } from "./rows/held.ts";
import type { Identity } from "./rows/identity.ts";
import { type CollectedFamily, type Row, register } from "./rows/table.ts";
import { Lines, printFamily } from "./rows/text.ts";
import type { CellReads, ChangeTracker } from "./rows/watched.ts";

/** Order in which Triton prints the types. */
const TYPES = ["counter", "gauge", "histogram", "summary"] as const;

/**
 * `nowUs`: the engine's clock, which starts with the server. `rest` is consulted before each family, so that the thread
 * pauses while a step is due.
 */
type Print<Page> = (
  view: View,
  newCopies: CopiesByRefresh,
  format?: PageFormat,
  nowUs?: number,
  rest?: Pick<StepRest, "look">,
) => Promise<Page>;
interface PrintPage extends Print<string> {
  /** Returns the page in parts, one per family. An unchanged family returns the same text as before. */
  readonly parts: Print<readonly string[]>;
}

/** Returns a function that prints pages: one registry per view, all families of a page from the same copies. */
export function pages(identity: Identity): PrintPage {
  let copies: CopiesByRefresh;
  let seconds = 0;
  let resting: Pick<StepRest, "look"> | undefined;
  const registries = new Map<View, Registry>();
  /** By view, in the order of the families. */
  const printed = new Map<View, FamilyText[]>();
  /** Collects a row again only if a number that it read has changed. */
  const remember = (row: Row, make: () => CollectedFamily) => {
    const reads: CellReads = [];
    let family: CollectedFamily | undefined;
    let [of, turn]: [ChangeTracker | undefined, number] = [undefined, 0];
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
      style: styleOf(name, identity),
      rows: withFakes(withBugs(metricsDialects[name].rows(identity), identity), identity, () => seconds),
    }));
    // Triton's single registry of prometheus-cpp prints families by type, whichever component registered them.
    for (const type of view === "tritonserver" ? TYPES : [null]) {
      for (const { rows, style } of tables) {
        // If two dialects have the same family, the first dialect's is shown.
        const table = rows.filter((row) => !names.has(row.name) && (type === null || row.type === type));
        for (const row of table) names.add(row.name);
        register(table, registry, (refresh) => copies(refresh), identity, style, remember);
      }
    }
    registries.set(view, registry);
    printed.set(view, []);
    return registry;
  };
  const parts: PrintPage["parts"] = async (view, newCopies, format = "text", nowUs = 0, rest) => {
    // Read before the first await, because each row's `get` is synchronous.
    copies = newCopies;
    resting = rest;
    seconds = nowUs / 1e6;
    const collected = (registries.get(view) ?? registryOf(view)).getMetricsAsJSON();
    const families = (await collected) as unknown as CollectedFamily[];
    const isOnly = isOnlyOpenMetrics(view, identity);
    if (format === "openmetrics" && !isOnly) return [printOpenMetrics(families)];
    const texts = printed.get(view)!;
    for (let i = texts.length; i < families.length; i++) texts.push(new FamilyText());
    const print = isOnly ? printOpenMetricsFamily : printTextFamily;
    const parts = families.map((family, i) => {
      rest?.look();
      return texts[i]!.text(family, print);
    });
    return isOnly ? [...parts, END] : parts;
  };
  const whole: Print<string> = async (...page) => (await parts(...page)).join("");
  return Object.assign(whole, { parts });
}

/** Encodes a page. Keeps the bytes of unchanged parts, because encoding all parts again took a third of the page's time. */
export class PageEncoder {
  readonly #encoder = new TextEncoder();
  #parts: readonly string[] = [];
  readonly #bytes: Uint8Array[] = [];

  /** Returns the page in newly allocated memory. */
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

const printTextFamily = (family: CollectedFamily, lines: Lines) => printFamily(family, family.style, lines);

/** Text of a family, reused while the family is the same object. */
class FamilyText {
  readonly #lines = new Lines();
  #family: CollectedFamily | null = null;
  #text = "";

  text(family: CollectedFamily, print: typeof printTextFamily): string {
    if (this.#family !== family) this.#text = print(family, this.#lines);
    this.#family = family;
    return this.#text;
  }
}

/**
 * Keeps the values that gauges had before the update which ended the last request, for bugs in which gauges stick. Only
 * numbers that follow updates stick (`step`); current numbers (`now`) stay true.
 */

import type { EngineView } from "../../engine/interface/types.ts";
import type { BugName } from "../config/bug-names.ts";
import type { Source } from "../rows/held.ts";
import type { StickyFields } from "./bug.ts";
import { bugs } from "./table.ts";

export interface StickyGauges {
  readonly source: Source;
  /** Must be called before each update. */
  observe(): void;
}

/** Returns null if none of these bugs makes gauges stick. */
export function stuck(names: readonly BugName[], source: Source): StickyGauges | null {
  const on = names.flatMap((name) => bugs[name].sticks ?? []);
  if (on.length === 0) return null;
  const now = source("now").engines;
  const stickyValues = source("step").engines.map((view, rank) =>
    on.map((sticks) => new StickyValues(view, now[rank]!, sticks)),
  );
  const engines = source("step").engines.map((view, rank) => overlaid(view, stickyValues[rank]!));
  return {
    source: (fresh) => (fresh === "now" ? source(fresh) : { ...source(fresh), engines }),
    observe() {
      for (const engine of stickyValues) for (const values of engine) values.observe();
    },
  };
}

const underway = ({ running, waiting, deferred }: EngineView) => running + waiting + deferred;

/** The numbers of one engine that one bug keeps. */
class StickyValues {
  readonly #values: Float64Array;
  #holds = false;
  #tokens = 0;

  constructor(
    private readonly view: EngineView,
    private readonly now: EngineView,
    private readonly sticks: StickyFields,
  ) {
    this.#values = new Float64Array(sticks.fields.length);
  }

  observe(): void {
    if (underway(this.view) > 0) {
      this.sticks.fields.forEach((field, i) => {
        this.#values[i] = this.view[field] as number;
      });
      this.#tokens = this.view.generationTokens;
      this.#holds = true;
    } else if (this.sticks.after !== "any end" && (!this.shows || underway(this.now) > 0)) this.#holds = false;
  }

  get shows(): boolean {
    if (!this.#holds || underway(this.view) > 0) return false;
    // A request that ends in a step brings a token. One that is ended from outside does not.
    return this.sticks.after === "any end" || this.view.generationTokens === this.#tokens;
  }

  /** Returns the number that replaces the field's, or undefined if the field is not stuck. */
  of(field: PropertyKey): number | undefined {
    const at = this.sticks.fields.indexOf(field as StickyFields["fields"][number]);
    return at >= 0 && this.shows ? this.#values[at] : undefined;
  }
}

function overlaid(view: EngineView, stickyValues: readonly StickyValues[]): EngineView {
  return new Proxy(view, {
    get(target, field) {
      for (const values of stickyValues) {
        const value = values.of(field);
        if (value !== undefined) return value;
      }
      return Reflect.get(target, field, target);
    },
  });
}

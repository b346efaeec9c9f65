/** The values of one engine or model in one scrape: sums over its series by name, each with its origin for reports. */
import type { Exposition, ScrapedLabels, ScrapedSample } from "./exposition.ts";
import { seriesText } from "./exposition.ts";
import { NotCheckable, type Term } from "./law.ts";
import { readNumber } from "./sample-line.ts";

/** Required labels of a series: one value or several allowed values per label. */
export type Where = Readonly<Record<string, string | readonly string[]>>;

/** Sum and count of a histogram or summary. */
export interface HistogramTerms {
  /** Sum over all observations. */
  readonly sum: Term;
  /** Number of observations. */
  readonly count: Term;
}

export class Reading {
  constructor(
    /** The page. */
    readonly exposition: Exposition,
    /** Prefix that is added to each requested name. */
    readonly prefix: string,
    /** Labels of the engine or model whose series `byName` has. */
    readonly group: ScrapedLabels = {},
    /** Samples by full name, such as `x_bucket`. */
    readonly byName: Exposition["byName"] = exposition.byName,
  ) {}

  /** Returns the series of a name. The prefix is added. */
  samples(name: string, where: Where = {}): readonly ScrapedSample[] {
    const { byName } = this;
    // Our OpenMetrics output adds `_total` to Triton's counters, because the format demands it.
    const all = byName.get(this.prefix + name) ?? byName.get(`${this.prefix}${name}_total`) ?? this.#former(name);
    return all.filter(({ labels }) => matches(labels, where));
  }

  /** Returns the series of TensorRT-LLM's families under their names of 2023. */
  #former(name: string): readonly ScrapedSample[] {
    return this.byName.get(this.prefix + formerName(name)) ?? [];
  }

  /**
   * Returns the sum over the series, or null if there are none. Throws `NotCheckable` if series may be left out, or if the sum
   * is NaN.
   */
  maybe(name: string, where: Where = {}): Term | null {
    const samples = this.samples(name, where);
    if (samples.length === 0) return null;
    // Counts of histograms are complete even if buckets are left out.
    if (this.exposition.excerpt?.torn.has(samples[0]!.name) === true)
      throw new NotCheckable(`the excerpt may leave out series of ${samples[0]!.name}`);
    const sum = samples.reduce((all, { value }) => all + value, 0);
    // Law G04 reports the NaN. Other laws cannot conclude anything from it.
    if (Number.isNaN(sum)) throw new NotCheckable(`${this.text(name, where)} is NaN`);
    return { value: sum, text: this.text(name, where) };
  }

  /** Returns the sum over the series. Throws `NotCheckable` if there are none. */
  get(name: string, where: Where = {}): Term {
    const sum = this.maybe(name, where);
    if (sum === null) throw new NotCheckable(`no ${this.text(name, where)} here`);
    return sum;
  }

  /** Returns the sum over the series, or 0 if there are none. For families whose series appear with their first event. */
  orZero(name: string, where: Where = {}): Term {
    return this.maybe(name, where) ?? { value: 0, text: this.text(name, where) };
  }

  /** Returns the sum and count of a histogram or summary. Throws `NotCheckable` if they are missing. */
  of(name: string): HistogramTerms {
    return { sum: this.get(`${name}_sum`), count: this.get(`${name}_count`) };
  }

  /** Returns the counts of all buckets whose bound is at least `atLeast`. */
  bucketsFrom(name: string, atLeast: number): Term[] {
    return this.samples(`${name}_bucket`)
      .filter(({ labels }) => (readNumber(labels.le ?? "") ?? 0) >= atLeast)
      .map(({ labels, value }) => ({ value, text: this.text(`${name}_bucket`, { le: labels.le! }) }));
  }

  /** Prints the name of a series as the page spells it. */
  text(name: string, where: Where = {}): string {
    const labels: Record<string, string> = { ...this.group };
    for (const [label, value] of Object.entries(where))
      labels[label] = typeof value === "string" ? value : value.join("|");
    const fullName = this.prefix + name;
    const former = this.prefix + formerName(name);
    return seriesText(!this.byName.has(fullName) && this.byName.has(former) ? former : fullName, labels);
  }
}

const formerName = (name: string): string => name.replace(/_metrics$/, "_statistics");

function matches(labels: ScrapedLabels, where: Where): boolean {
  for (const label in where) {
    const required = where[label]!;
    const value = labels[label];
    if (value === undefined || (typeof required === "string" ? required !== value : !required.includes(value)))
      return false;
  }
  return true;
}

/** What does one engine or model say in one scrape? Values by name, summed over its series, each with its origin. */
import type { Exposition, ScrapedLabels, ScrapedSample } from "./exposition.ts";
import { seriesText } from "./exposition.ts";
import { NotCheckable, type Term } from "./law.ts";
import { readNumber } from "./sample-line.ts";

/** A label's value, or those it may have. */
export type Where = Readonly<Record<string, string | readonly string[]>>;

/** A histogram's or summary's sum and count. */
export interface HistogramTerms {
  /** Over all observations. */
  readonly sum: Term;
  /** Over all observations. */
  readonly count: Term;
}

export class Reading {
  constructor(
    /** The page. */
    readonly exposition: Exposition,
    /** Stands in front of names that are asked for. */
    readonly prefix: string,
    /** The engine or model whose series `byName` holds. */
    readonly group: ScrapedLabels = {},
    /** Samples by their own name. */
    readonly byName: Exposition["byName"] = exposition.byName,
  ) {}

  /** The series of a family's sample name, without the prefix. */
  samples(name: string, where: Where = {}): readonly ScrapedSample[] {
    const { byName } = this;
    // Our own OpenMetrics output adds the suffix to Triton's counters, as the format demands.
    const all = byName.get(this.prefix + name) ?? byName.get(`${this.prefix}${name}_total`) ?? this.#former(name);
    return all.filter(({ labels }) => matches(labels, where));
  }

  /** TensorRT-LLM's groups of 2023 ended in another word. */
  #former(name: string): readonly ScrapedSample[] {
    return this.byName.get(this.prefix + formerName(name)) ?? [];
  }

  /** Sum over the series; null when there is none. */
  maybe(name: string, where: Where = {}): Term | null {
    const samples = this.samples(name, where);
    if (samples.length === 0) return null;
    // A histogram has one count per series, whichever buckets are left out.
    if (this.exposition.excerpt?.torn.has(samples[0]!.name) === true)
      throw new NotCheckable(`the excerpt may leave out series of ${samples[0]!.name}`);
    const sum = samples.reduce((all, { value }) => all + value, 0);
    // G04 says so; nothing follows from it.
    if (Number.isNaN(sum)) throw new NotCheckable(`${this.text(name, where)} is NaN`);
    return { value: sum, text: this.text(name, where) };
  }

  /** Sum over the series; what is not there makes the law not checkable. */
  get(name: string, where: Where = {}): Term {
    const found = this.maybe(name, where);
    if (found === null) throw new NotCheckable(`no ${this.text(name, where)} here`);
    return found;
  }

  /** For families whose series appear with their first event. */
  orZero(name: string, where: Where = {}): Term {
    return this.maybe(name, where) ?? { value: 0, text: this.text(name, where) };
  }

  /** Terms of a histogram or summary. */
  of(name: string): HistogramTerms {
    return { sum: this.get(`${name}_sum`), count: this.get(`${name}_count`) };
  }

  /** Observations at or below `le`, for each bound that is at least this one. */
  bucketsFrom(name: string, atLeast: number): Term[] {
    return this.samples(`${name}_bucket`)
      .filter(({ labels }) => (readNumber(labels.le ?? "") ?? 0) >= atLeast)
      .map(({ labels, value }) => ({ value, text: this.text(`${name}_bucket`, { le: labels.le! }) }));
  }

  /** The name of a series, as the page spells it. */
  text(name: string, where: Where = {}): string {
    const labels: Record<string, string> = { ...this.group };
    for (const [label, value] of Object.entries(where))
      labels[label] = typeof value === "string" ? value : value.join("|");
    const own = this.prefix + name;
    const former = this.prefix + formerName(name);
    return seriesText(!this.byName.has(own) && this.byName.has(former) ? former : own, labels);
  }
}

const formerName = (name: string): string => name.replace(/_metrics$/, "_statistics");

function matches(labels: ScrapedLabels, where: Where): boolean {
  for (const label in where) {
    const wanted = where[label]!;
    const value = labels[label];
    if (value === undefined || (typeof wanted === "string" ? wanted !== value : !wanted.includes(value))) return false;
  }
  return true;
}

/**
 * Checks that the samples of a histogram fit together: bounds, order, the last bucket. Prometheus' own tools do not check
 * this.
 */
import { type Fault, labelKey, type ScrapedFamily, type ScrapedSample, seriesText } from "./exposition.ts";
import { readNumber } from "./sample-line.ts";

export interface Bucket {
  readonly le: number;
  readonly value: number;
  readonly sample: ScrapedSample;
}

/** One label set of a histogram family. */
export interface HistogramSeries {
  readonly labels: Readonly<Record<string, string>>;
  /** Buckets sorted by rising `le`, whatever the order of the text. */
  readonly buckets: Bucket[];
  sum: ScrapedSample | null;
  count: ScrapedSample | null;
  /** Line number of the first sample, from 1. */
  readonly line: number;
}

const cache = new WeakMap<ScrapedFamily, readonly HistogramSeries[]>();

/** Returns the label sets of a histogram family. Empty for other types. */
export function histogramsOf(family: ScrapedFamily): readonly HistogramSeries[] {
  if (family.type !== "histogram") return [];
  const cached = cache.get(family);
  if (cached) return cached;
  const bySet = new Map<string, HistogramSeries>();
  for (const sample of family.samples) {
    const key = labelKey(sample.labels, "le");
    let open = bySet.get(key);
    if (open === undefined) {
      const { le: _, ...labels } = sample.labels;
      open = { labels, buckets: [], sum: null, count: null, line: sample.line };
      bySet.set(key, open);
    }
    const suffix = sample.name.slice(family.name.length);
    if (suffix === "_sum") open.sum = sample;
    else if (suffix === "_count") open.count = sample;
    else if (suffix === "_bucket" && sample.labels.le !== undefined) {
      open.buckets.push({ le: readNumber(sample.labels.le) ?? Number.NaN, value: sample.value, sample });
    }
  }
  const histograms = [...bySet.values()];
  for (const { buckets } of histograms) buckets.sort((a, b) => a.le - b.le);
  cache.set(family, histograms);
  return histograms;
}

/**
 * Returns the defects of a histogram family. `torn`: true if an excerpt leaves out lines of it, so that missing samples are no
 * defects.
 */
export function shapeFaults(family: ScrapedFamily, torn = false): Fault[] {
  const faults: Fault[] = [];
  for (const { labels, buckets, sum, count, line } of histogramsOf(family)) {
    const name = seriesText(family.name, labels);
    for (const { le, sample } of buckets) {
      if (Number.isNaN(le))
        faults.push({ kind: "syntax", line: sample.line, message: `le="${sample.labels.le}" is not a number` });
    }
    for (let i = 1; i < buckets.length; i++) {
      const [lower, upper] = [buckets[i - 1]!, buckets[i]!];
      if (upper.value < lower.value) {
        const message = `${name}: le="${upper.sample.labels.le}" holds ${upper.value}, less than le="${lower.sample.labels.le}" with ${lower.value}`;
        faults.push({ kind: "monotone", line: upper.sample.line, message });
      }
    }
    const last = buckets.at(-1);
    if (last === undefined || last.le !== Number.POSITIVE_INFINITY) {
      if (!torn) faults.push({ kind: "infinity", line, message: `${name} has no bucket le="+Inf"` });
    } else if (count !== null && last.value !== count.value) {
      const message = `${name}: le="+Inf" holds ${last.value}, _count is ${count.value}`;
      faults.push({ kind: "infinity", line: last.sample.line, message });
    }
    if (torn) continue;
    if (count === null) faults.push({ kind: "infinity", line, message: `${name} has no _count` });
    if (sum === null) faults.push({ kind: "infinity", line, message: `${name} has no _sum` });
  }
  return faults;
}

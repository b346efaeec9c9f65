/**
 * Collects the metrics pages of many scrapes into one OpenMetrics file with timestamps, as Prometheus would store them. The
 * format wants all samples of a metric together, so they are collected per metric. Text beyond a limit goes to a spool.
 */

/** Storage for bytes that are too large for memory. */
export interface Spool {
  /** Appends bytes and returns their offset. */
  append(bytes: Uint8Array): number;
  read(at: number, length: number): Uint8Array;
}

/** Labels that a scraper adds to all samples of a target. */
export interface ScrapeTarget {
  readonly job: string;
  readonly instance: string;
}

/** Most characters in memory over all metrics, before they go to the spool. */
export const HELD_MOST = 8 * 2 ** 20;

/** One label set of a family without `le` and `quantile`, so that it includes all buckets, sum and count. */
interface Metric {
  text: string;
  /** Parts in the spool, as offset and length in turns. */
  readonly spooled: number[];
}

interface Family {
  readonly type: string;
  readonly help: string | undefined;
  readonly metrics: Map<string, Metric>;
}

/** A series: its line in the file without value and time, and the metric that it belongs to. */
interface Series {
  readonly line: string;
  readonly metric: Metric;
}

const TYPES = ["counter", "gauge", "histogram", "summary"];
/** Returns the series that Prometheus adds to each scrape. The duration is 0, because a scrape takes no simulated time. */
function ownSeries(scraped: number, added: number): string {
  const values = {
    up: 1,
    scrape_duration_seconds: 0,
    scrape_samples_scraped: scraped,
    scrape_samples_post_metric_relabeling: scraped,
    scrape_series_added: added,
  };
  return Object.entries(values)
    .map(([name, value]) => `# TYPE ${name} gauge\n${name} ${value}\n`)
    .join("");
}

export class History {
  readonly #families = new Map<string, Family>();
  readonly #metrics: Metric[] = [];
  readonly #series = new Map<string, Map<string, Series>>();
  #held = 0;

  /** `collect` runs the garbage collector (see `ReplayOptions.collect`). */
  constructor(
    private readonly spool: Spool,
    private readonly collect: () => void = () => {},
    private readonly heldMost = HELD_MOST,
  ) {}

  /** Adds a well-formed page in text format 0.0.4, or in OpenMetrics, which ends with `# EOF`. `atS`: its time in seconds, which must rise for each target. */
  add(target: ScrapeTarget, page: string, atS: number): void {
    const known = this.#series.get(target.job + target.instance)?.size ?? 0;
    const scraped = this.#add(target, page, atS);
    const added = this.#series.get(target.job + target.instance)!.size - known;
    this.#add(target, ownSeries(scraped, added), atS);
    if (this.#held > this.heldMost) this.#spill();
  }

  /** Yields the text of the file in pieces, with `# EOF` at the end. */
  *file(): Generator<string> {
    let read = 0;
    for (const [name, { type, help, metrics }] of this.#families) {
      if (help !== undefined) yield `# HELP ${name} ${help}\n`;
      yield `# TYPE ${name} ${type}\n`;
      for (const { text, spooled } of metrics.values()) {
        for (let i = 0; i < spooled.length; i += 2) {
          const length = spooled[i + 1]!;
          yield new TextDecoder().decode(this.spool.read(spooled[i]!, length));
          read += length;
          if (read > this.heldMost) {
            read = 0;
            this.collect();
          }
        }
        yield text;
      }
    }
    yield "# EOF\n";
  }

  /** Adds the samples of a page and returns their number. */
  #add({ job, instance }: ScrapeTarget, page: string, atS: number): number {
    const key = job + instance;
    const series = this.#series.get(key) ?? new Map<string, Series>();
    this.#series.set(key, series);
    const labels = `job="${escaped(job)}",instance="${escaped(instance)}"`;
    const isOpenMetrics = page.endsWith("# EOF\n");
    let help: string | undefined;
    let family = "";
    let samples = 0;
    for (let at = 0; at < page.length; ) {
      const end = page.indexOf("\n", at);
      const line = page.slice(at, end);
      at = end + 1;
      if (line.startsWith("# HELP ")) {
        const written = line.slice(line.indexOf(" ", 7) + 1);
        help = isOpenMetrics ? written : written.replaceAll('"', '\\"');
      } else if (line.startsWith("# TYPE ")) {
        const [name, type] = line.slice(7).split(" ");
        family = isOpenMetrics ? this.#declared(name!, type!, help) : this.#family(name!, type!, help);
        help = undefined;
      } else if (line !== "" && !line.startsWith("#")) {
        const space = line.lastIndexOf(" ");
        const text = line.slice(0, space);
        const entry = series.get(text) ?? this.#newSeries(series, text, labels, family);
        const value = line.slice(space + 1);
        const written = `${entry.line} ${value === "Nan" ? "NaN" : value} ${atS}\n`;
        entry.metric.text += written;
        this.#held += written.length;
        samples++;
      }
    }
    return samples;
  }

  /** Returns a family's name in OpenMetrics. A counter without the suffix `_total` gets the type `unknown` there. */
  #family(name: string, type: string, help: string | undefined): string {
    const base = name.replace(/_created$/, "");
    if (base !== name && type === "gauge" && this.#families.has(base)) return base;
    const total = type === "counter" && name.endsWith("_total");
    const family = total ? name.slice(0, -"_total".length) : name;
    const known = TYPES.includes(type) && (type !== "counter" || total);
    return this.#declared(family, known ? type : "unknown", help);
  }

  #declared(family: string, type: string, help: string | undefined): string {
    if (!this.#families.has(family)) this.#families.set(family, { type, help, metrics: new Map() });
    return family;
  }

  #newSeries(series: Map<string, Series>, text: string, target: string, family: string): Series {
    const brace = text.indexOf("{");
    const name = brace < 0 ? text : text.slice(0, brace);
    const labels = brace < 0 ? "" : text.slice(brace + 1, -1);
    const own = labels.replace(/(?:^|,)(?:le|quantile)="[^"]*"/, "").replace(/^,/, "");
    const { metrics } = this.#families.get(family)!;
    const key = `${target},${own}`;
    let metric = metrics.get(key);
    if (metric === undefined) {
      metric = { text: "", spooled: [] };
      metrics.set(key, metric);
      this.#metrics.push(metric);
    }
    const entry = { line: `${name}{${target}${labels === "" ? "" : `,${labels}`}}`, metric };
    series.set(text, entry);
    return entry;
  }

  #spill(): void {
    for (const metric of this.#metrics) {
      if (metric.text === "") continue;
      const bytes = new TextEncoder().encode(metric.text);
      metric.spooled.push(this.spool.append(bytes), bytes.length);
      metric.text = "";
    }
    this.#held = 0;
    this.collect();
  }
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

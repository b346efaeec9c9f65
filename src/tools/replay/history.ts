/**
 * What would Prometheus have stored? Pages of many instants, as one OpenMetrics file with timestamps. The format wants a
 * metric's samples of all instants together, so they are gathered per metric, and what is too much to hold goes to a spool.
 */

/** Bytes that are kept until they are asked for. */
export interface Spool {
  /** Where they begin. */
  append(bytes: Uint8Array): number;
  read(at: number, length: number): Uint8Array;
}

/** Labels that a scraper gives to everything it reads at one place. */
export interface ScrapeTarget {
  readonly job: string;
  readonly instance: string;
}

/** Characters that wait in memory, over all metrics. */
export const HELD_MOST = 8 * 2 ** 20;

/** One label set of a family, without `le` and `quantile`: buckets, sum and count stand together. */
interface Metric {
  text: string;
  /** Places in the spool: where and how long, in turns. */
  readonly spooled: number[];
}

interface Family {
  readonly type: string;
  readonly help: string | undefined;
  readonly metrics: Map<string, Metric>;
}

/** A series by its text on the page: its line without value and time, and where that goes. */
interface Series {
  readonly line: string;
  readonly metric: Metric;
}

const TYPES = ["counter", "gauge", "histogram", "summary"];
/** What Prometheus adds to each scrape. Reading takes no simulated time. */
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
  readonly #spool: Spool;
  readonly #heldMost: number;
  readonly #collect: () => void;
  readonly #families = new Map<string, Family>();
  readonly #metrics: Metric[] = [];
  readonly #series = new Map<string, Map<string, Series>>();
  #held = 0;

  /** `collect` frees memory: the host would wait too long (see `ReplayOptions`). */
  constructor(spool: Spool, collect: () => void = () => {}, heldMost = HELD_MOST) {
    this.#spool = spool;
    this.#collect = collect;
    this.#heldMost = heldMost;
  }

  /** A page in text format 0.0.4, well formed, as it was at `atS`; the times of a target must rise. */
  add(target: ScrapeTarget, page: string, atS: number): void {
    const known = this.#series.get(target.job + target.instance)?.size ?? 0;
    const scraped = this.#add(target, page, atS);
    const added = this.#series.get(target.job + target.instance)!.size - known;
    this.#add(target, ownSeries(scraped, added), atS);
    if (this.#held > this.#heldMost) this.#spill();
  }

  /** The file's text in pieces, from its first line to `# EOF`. */
  *file(): Generator<string> {
    let read = 0;
    for (const [name, { type, help, metrics }] of this.#families) {
      if (help !== undefined) yield `# HELP ${name} ${help}\n`;
      yield `# TYPE ${name} ${type}\n`;
      for (const { text, spooled } of metrics.values()) {
        for (let i = 0; i < spooled.length; i += 2) {
          const length = spooled[i + 1]!;
          yield new TextDecoder().decode(this.#spool.read(spooled[i]!, length));
          read += length;
          if (read > this.#heldMost) {
            read = 0;
            this.#collect();
          }
        }
        yield text;
      }
    }
    yield "# EOF\n";
  }

  /** Returns how many samples there were. */
  #add({ job, instance }: ScrapeTarget, page: string, atS: number): number {
    const key = job + instance;
    const series = this.#series.get(key) ?? new Map<string, Series>();
    this.#series.set(key, series);
    const labels = `job="${escaped(job)}",instance="${escaped(instance)}"`;
    let help: string | undefined;
    let family = "";
    let samples = 0;
    for (let at = 0; at < page.length; ) {
      const end = page.indexOf("\n", at);
      const line = page.slice(at, end);
      at = end + 1;
      if (line.startsWith("# HELP ")) help = line.slice(line.indexOf(" ", 7) + 1).replaceAll('"', '\\"');
      else if (line.startsWith("# TYPE ")) {
        const [name, type] = line.slice(7).split(" ");
        family = this.#family(name!, type!, help);
        help = undefined;
      } else if (line !== "" && !line.startsWith("#")) {
        const space = line.lastIndexOf(" ");
        const text = line.slice(0, space);
        const one = series.get(text) ?? this.#newSeries(series, text, labels, family);
        const value = line.slice(space + 1);
        const written = `${one.line} ${value === "Nan" ? "NaN" : value} ${atS}\n`;
        one.metric.text += written;
        this.#held += written.length;
        samples++;
      }
    }
    return samples;
  }

  /** The family's name in OpenMetrics. There a counter's samples end in `_total`; one that does not is of unknown type. */
  #family(name: string, type: string, help: string | undefined): string {
    const base = name.replace(/_created$/, "");
    if (base !== name && type === "gauge" && this.#families.has(base)) return base;
    const total = type === "counter" && name.endsWith("_total");
    const family = total ? name.slice(0, -"_total".length) : name;
    const known = TYPES.includes(type) && (type !== "counter" || total);
    if (!this.#families.has(family)) {
      this.#families.set(family, { type: known ? type : "unknown", help, metrics: new Map() });
    }
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
    const one = { line: `${name}{${target}${labels === "" ? "" : `,${labels}`}}`, metric };
    series.set(text, one);
    return one;
  }

  #spill(): void {
    for (const metric of this.#metrics) {
      if (metric.text === "") continue;
      const bytes = new TextEncoder().encode(metric.text);
      metric.spooled.push(this.#spool.append(bytes), bytes.length);
      metric.text = "";
    }
    this.#held = 0;
    this.#collect();
  }
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

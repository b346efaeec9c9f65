/** Scrapes the server's Prometheus page before, during and after a run. */
import type { Cancel, Clock } from "../../base/clock.ts";
import type { ServerMoment, UnderstudyPart } from "../report/result.ts";
import { type FetchOptions, fetchText } from "./server.ts";

const SERIES_MOST = 5000;
/** Maximum number of scrapes that are kept. Then every second one is dropped, and the interval doubles. */
const MOMENTS_MOST = 7200;

type Name = "running" | "waiting" | "kv_usage" | "preemptions";

/** Series of known engines. Values of several engines are added; shares are averaged. */
const SERIES: Readonly<Record<string, Name>> = {
  "vllm:num_requests_running": "running",
  "vllm:num_requests_waiting": "waiting",
  "vllm:kv_cache_usage_perc": "kv_usage",
  "vllm:gpu_cache_usage_perc": "kv_usage",
  "vllm:num_preemptions_total": "preemptions",
  "sglang:num_running_reqs": "running",
  "sglang:num_queue_reqs": "waiting",
  "sglang:token_usage": "kv_usage",
  'nv_trt_llm_request_metrics{request_type="active"': "running",
  'nv_trt_llm_request_metrics{request_type="waiting"': "waiting",
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"': "kv_usage",
};

export class ServerMetrics {
  /** Reason if the metrics could not be read, else null. */
  missing: string | null = null;
  readonly #url: string;
  readonly #options: FetchOptions;
  readonly #clock: Clock;
  #intervalUs: number;
  #moments: ServerMoment[] = [];
  #before: Page | null = null;
  #after: Page | null = null;
  #next: Cancel | null = null;
  #startUs = 0;
  #isScraping = false;

  constructor(url: string, intervalS: number, options: FetchOptions, clock: Clock) {
    this.#url = url;
    this.#intervalUs = intervalS * 1e6;
    this.#options = options;
    this.#clock = clock;
  }

  async before(): Promise<void> {
    const text = await this.#scrape();
    if (text !== null) this.#before = pageOf(text);
  }

  /** Starts scraping once per interval, if the first scrape was successful. */
  start(): void {
    this.#startUs = this.#clock.now();
    if (this.#before !== null) this.#again();
  }

  async after(): Promise<void> {
    this.#next?.();
    if (this.#before === null) return;
    const text = await this.#scrape();
    if (text !== null) this.#after = pageOf(text);
  }

  result(): UnderstudyPart["server_metrics"] {
    const [before, after] = [this.#before, this.#after];
    if (before === null) return null;
    const delta: Record<string, number> = {};
    for (const [series, value] of Object.entries(after?.series ?? {})) {
      if (after!.counters.has(nameOf(series))) delta[series] = value - (before.series[series] ?? 0);
    }
    return { before: before.series, after: after?.series ?? null, delta, timeseries: this.#moments };
  }

  #again(): void {
    this.#next = this.#clock.at(this.#clock.now() + this.#intervalUs, () => {
      const t = (this.#clock.now() - this.#startUs) / 1e6;
      // Skip a scrape while the last one is still running, because each answer is kept in memory until it is complete.
      if (!this.#isScraping)
        void this.#scrape().then((text) => {
          if (text !== null) this.#keep({ t, ...momentOf(text) });
        });
      this.#again();
    });
  }

  #keep(moment: ServerMoment): void {
    this.#moments.push(moment);
    if (this.#moments.length < MOMENTS_MOST) return;
    this.#moments = this.#moments.filter((_, i) => i % 2 === 0);
    this.#intervalUs *= 2;
  }

  async #scrape(): Promise<string | null> {
    this.#isScraping = true;
    const { status, text, why } = await fetchText(this.#url, this.#options, this.#clock);
    this.#isScraping = false;
    if (status === 200) return text;
    this.missing ??= why ?? `HTTP ${status}`;
    return null;
  }
}

interface Page {
  readonly series: Readonly<Record<string, number>>;
  /** Names of samples that only grow. */
  readonly counters: ReadonlySet<string>;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*(?:\{.*\})?)\s+(\S+)/;

/** Parses all series except the buckets of histograms. */
function pageOf(text: string): Page {
  const series: Record<string, number> = {};
  const counters = new Set<string>();
  let seriesCount = 0;
  for (const line of text.split("\n")) {
    const [, family, type] = /^# TYPE (\S+) (\S+)/.exec(line) ?? [];
    if (family !== undefined) {
      if (type === "counter") counters.add(family).add(`${family}_total`);
      if (type === "histogram" || type === "summary") counters.add(`${family}_sum`).add(`${family}_count`);
      continue;
    }
    const [, name, valueText] = line.startsWith("#") ? [] : (SAMPLE.exec(line) ?? []);
    if (name === undefined || nameOf(name).endsWith("_bucket") || seriesCount >= SERIES_MOST) continue;
    const value = Number(valueText);
    if (!Number.isFinite(value)) continue;
    series[name] = value;
    seriesCount++;
  }
  return { series, counters };
}

const nameOf = (series: string): string => series.split("{", 1)[0]!;

/** Extracts only the few known series, because this runs while tokens arrive. */
function momentOf(text: string): Partial<Record<Name, number>> {
  const sums: Partial<Record<Name, { sum: number; count: number }>> = {};
  for (const [beginning, name] of Object.entries(SERIES)) {
    for (let at = text.indexOf(`\n${beginning}`); at >= 0; at = text.indexOf(`\n${beginning}`, at + 1)) {
      const end = text.indexOf("\n", at + 1);
      const [, , valueText] = SAMPLE.exec(text.slice(at + 1, end < 0 ? undefined : end)) ?? [];
      const value = Number(valueText);
      const isSeries = beginning.includes("{") || /^[\s{]/.test(text[at + 1 + beginning.length] ?? "");
      if (!isSeries || !Number.isFinite(value)) continue;
      const { sum, count } = sums[name] ?? { sum: 0, count: 0 };
      sums[name] = { sum: sum + value, count: count + 1 };
    }
  }
  return Object.fromEntries(
    Object.entries(sums).map(([name, { sum, count }]) => [name, name === "kv_usage" ? sum / count : sum]),
  );
}

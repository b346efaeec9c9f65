/** `replay --openmetrics`: scrapes the metrics of a replay in simulated time, and writes all scrapes to a file in time order. */
import { dialectNames, type MetricsDialectName } from "../../metrics/rows/dialect-names.ts";
import { History } from "../../tools/replay/history.ts";
import type { ReplayPages } from "../../tools/replay/page.ts";
import { one } from "../options/option.ts";
import { OutFile } from "../out-file.ts";
import { FileSpool } from "./spool.ts";

export const SCRAPE_INTERVAL_S = 15;
const UNITS: Readonly<Record<string, number>> = { "": 1, ms: 0.001, s: 1, m: 60, h: 3600 };

/** An option for an interval. The value is in seconds of simulated time. */
export const interval = one<number>("TIME", "a time from 1ms to 1h, as 15s", (text) => {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|)$/.exec(text) ?? [];
  const seconds = Number(number) * UNITS[unit]!;
  return seconds >= 0.001 && seconds <= 3600 ? seconds : undefined;
});

export const dialectList = one<readonly MetricsDialectName[]>(
  "NAMES",
  `names with commas between them: ${dialectNames.join(", ")}`,
  (text) => {
    const names = text.split(",").map((name) => dialectNames.find((known) => known === name.trim()));
    return names.every((name) => name !== undefined) ? [...new Set(names)] : undefined;
  },
);

/** An option for a number of seconds, such as `30`, or a range of seconds, such as `5-60`. */
export const secondsRange = one<readonly [least: number, most: number]>(
  "S[-S]",
  "seconds, as 30, or a range, as 5-60",
  (text) => {
    const [, from = "", to = from] = /^(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))?$/.exec(text) ?? [];
    const [least, most] = [Number(from), Number(to)];
    return from !== "" && least > 0 && most >= least && most <= 1e9 ? [least, most] : undefined;
  },
);

/**
 * All scrapes of a replay, with one target per metrics dialect. Names are those of the scrape configuration that the package
 * contains.
 */
export class Scrapes {
  readonly #file: OutFile;
  readonly #history: History;
  readonly #dialects: readonly MetricsDialectName[];
  readonly #instance: string;
  readonly #startS: number;

  /**
   * `instance`: value of the label `instance`, as `HOST:PORT`. `startS`: Unix time of the start in seconds. Throws TraceError.
   */
  constructor(path: string, instance: string, dialects: readonly MetricsDialectName[], startS: number) {
    this.#file = new OutFile(path);
    this.#history = new History(new FileSpool(path), () => Bun.gc(true));
    this.#dialects = dialects;
    this.#instance = instance;
    this.#startS = startS;
  }

  async take(pages: ReplayPages, atUs: number): Promise<void> {
    // Add in microseconds, so that the seconds have at most six decimals.
    const atS = (this.#startS * 1e6 + atUs) / 1e6;
    for (const name of this.#dialects) {
      this.#history.add({ job: name, instance: this.#instance }, await pages.text(name), atS);
    }
  }

  end(): void {
    for (const piece of this.#history.file()) this.#file.write(piece);
    this.#file.end("");
  }
}

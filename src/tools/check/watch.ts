/** Scrapes one server repeatedly and passes each page to a checker. */

import type { Clock } from "../../base/clock.ts";
import { epochUsOf } from "../../base/clock.ts";
import { parsedJson } from "../../base/json-object.ts";
import type { Checker } from "./checker.ts";
import { fetchPage, type PageFetchOptions } from "./fetch.ts";

export interface WatchOptions extends PageFetchOptions {
  readonly url: string;
  /** Name for the report: the URL without its password. */
  readonly name: string;
  readonly everyS: number;
  /** Seconds to watch. 0 for a single scrape. */
  readonly forS: number;
  /** Base URL of Triton's HTTP service, whose statistics are fetched with each scrape. Null for other servers. */
  readonly tritonUrl: string | null;
  /** True if the caller knows that no request is under way at the last scrape. */
  readonly rest: boolean;
  /** Returns true if the watch must end. It ends before the next scrape. */
  readonly stopped: () => boolean;
  readonly onScrape: (done: number, of: number) => void;
}

/**
 * Scrapes until the time is over. Skips a tick if the scrape before it is still running. Ends at once if the first scrape
 * fails.
 */
export async function watch(checker: Checker, clock: Clock, options: WatchOptions): Promise<void> {
  const { url, name, everyS, forS } = options;
  const ticks = Math.floor(forS / everyS) + 1;
  const startUs = clock.now();
  for (let tick = 0; tick < ticks; ) {
    const atUs = clock.now();
    const page = await fetchPage(url, clock, options);
    const atS = epochUsOf(atUs) / 1e6;
    if ("why" in page) {
      if (page.isStopped && tick > 0) return;
      checker.unreadable(name, atS, page.why);
      if (tick === 0) return;
    } else {
      const { bytes: text, contentType } = page;
      const { maxBytes } = options;
      const next = nextTick(clock.now());
      const rest = options.rest && (next >= ticks || options.stopped());
      const isPage = checker.add({
        text,
        contentType,
        maxBytes,
        atS,
        source: name,
        rest,
        tritonStats: await statistics(options, clock),
      });
      if (!isPage && tick === 0) return;
    }
    tick = nextTick(clock.now());
    options.onScrape(Math.min(tick, ticks), ticks);
    if (tick >= ticks || options.stopped()) return;
    await until(clock, startUs + tick * everyS * 1e6, options.stopped);
    if (options.stopped()) return;
  }

  function nextTick(nowUs: number): number {
    return Math.floor((nowUs - startUs) / (everyS * 1e6)) + 1;
  }
}

/** Fetches Triton's statistics. Returns null if that fails; the law that needs them then reports that they are missing. */
async function statistics({ tritonUrl, ...options }: WatchOptions, clock: Clock): Promise<unknown> {
  if (tritonUrl === null) return null;
  const page = await fetchPage(`${tritonUrl}/v2/models/stats`, clock, { ...options, accept: "application/json" });
  return "why" in page ? null : (parsedJson(new TextDecoder().decode(page.bytes)) ?? null);
}

/** Microseconds between two looks at `stopped`. */
const NOTICE_US = 100_000;

function until(clock: Clock, dueUs: number, stopped: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (stopped() || clock.now() >= dueUs) resolve();
      else clock.at(Math.min(dueUs, clock.now() + NOTICE_US), look);
    };
    look();
  });
}

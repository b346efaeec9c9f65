/**
 * What happens when a trace meets the engine on a clock of its own? Requests are submitted at their times, or as others
 * end, and time jumps from one event to the next. The engine and its loop are those of the server.
 */

import { VirtualClock } from "../../base/virtual-clock.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import type { RequestMeters } from "../../engine/interface/request-meter.ts";
import { type EngineSnapshot, Finish } from "../../engine/interface/types.ts";
import type { Observer } from "../../engine/observer.ts";
import { Accounts, HttpAccounts } from "../../kernel/accounting.ts";
import type { HttpRoute } from "../../metrics/rows/http-counts.ts";
import type { Pace, TraceRequest } from "../../workloads/trace.ts";
import { TraceArrivals } from "./arrivals.ts";
import { PATIENT, type TracedClientOptions } from "./clients.ts";
import { TracedFleet } from "./fleet.ts";

/** Work between two calls of `collect`: requests, and steps that were looked at, at so many for a request. */
const COLLECT_EVERY = 40_000;
const STEPS_PER_REQUEST = 16;

/** Requests are streams of completions, and vLLM's middleware counts each answer whole, by its first line. */
export const HTTP_ROUTES: readonly HttpRoute[] = [{ handler: "/v1/completions", method: "POST" }];
const OK = 200;
const BAD_REQUEST = 400;
const UNAVAILABLE = 503;

/** What an end counts as here, and in the server's outcomes; an error is a request that found no room after all. */
const COUNTED = {
  [Finish.Stop]: "finished",
  [Finish.Length]: "finished",
  [Finish.Repetition]: "finished",
  [Finish.Abort]: "left",
  [Finish.Error]: "busy",
} as const;
const OUTCOMES = {
  [Finish.Stop]: "stop",
  [Finish.Length]: "length",
  [Finish.Repetition]: "stop",
  [Finish.Abort]: "abort",
  [Finish.Error]: "refused",
} as const;

export interface ReplayOptions {
  readonly config: EngineConfig;
  readonly module: WebAssembly.Module;
  readonly engines: number;
  readonly requests: Iterator<TraceRequest>;
  readonly pace: Pace;
  /** Prompt tokens per hash id of the trace; absent: 512. */
  readonly hashBlockTokens?: number;
  /** The replay ends at this time, with what runs then unfinished; Infinity: when all is done. */
  readonly untilUs: number;
  /** Absent: they set the traced length as their limit and wait for it. */
  readonly clients?: TracedClientOptions;
  /** Looked at after each interval of simulated time. */
  readonly series?: {
    readonly intervalUs: number;
    readonly onRow: (atUs: number, engines: readonly EngineSnapshot[], counts: Counts) => void;
  };
  /** Called at 0 and after each interval; time stands still until it is done. Needs `runScraped`. */
  readonly scrapes?: { readonly intervalUs: number; readonly onScrape: (atUs: number) => Promise<void> };
  /** Called before each update with its time: what held copies need. */
  readonly beforeUpdate?: (nowUs: number) => void;
  /** Observer of the engine with this index: told of every step and request. */
  readonly observer?: (engine: number) => Observer;
  /** Meters for each engine, told of requests as they begin and end; `now` is the replay's time. */
  readonly meters?: (now: () => number) => RequestMeters;
  /** Frees memory. The host's own collector takes the core's memory, most of it never touched, for live data and so waits too long. */
  readonly collect?: () => void;
  readonly onProgress?: (atUs: number, counts: Counts) => void;
}

/** Requests so far: arrived = finished + left + refused + unfinished. */
export interface Counts {
  arrived: number;
  finished: number;
  /** Their clients did not wait for the end. */
  left: number;
  /** Finished and unfinished requests with less output than the trace says, for want of context. */
  cut: number;
  tooLong: number;
  busy: number;
}

export class Replay {
  readonly counts: Counts = { arrived: 0, finished: 0, left: 0, cut: 0, tooLong: 0, busy: 0 };
  /** By outcome, as the server's front counts; empty without `beforeUpdate`, since only pages show it. */
  readonly accounts: Accounts;
  readonly fleet: TracedFleet;
  readonly #clock = new VirtualClock();
  readonly #options: ReplayOptions;
  readonly #isShown: boolean;
  readonly #http = new HttpAccounts(HTTP_ROUTES, () => this.#clock.now());
  /** Concurrency of a closed loop; Infinity in an open one. */
  readonly #most: number;
  readonly #arrivals: TraceArrivals;
  #live = 0;
  #lastEndUs = 0;
  #steps = 0;
  #collectAt = COLLECT_EVERY;
  #rowUs: number;
  #scrapeUs: number;

  constructor(options: ReplayOptions) {
    this.#options = options;
    this.#isShown = options.beforeUpdate !== undefined;
    this.accounts = new Accounts(this.#http);
    this.#most = options.pace.kind === "closed" ? options.pace.concurrency : Number.POSITIVE_INFINITY;
    this.#rowUs = options.series?.intervalUs ?? Number.POSITIVE_INFINITY;
    this.#scrapeUs = options.scrapes ? 0 : Number.POSITIVE_INFINITY;
    const { config, module, engines, clients = PATIENT, observer = null, meters, beforeUpdate = null } = options;
    this.fleet = new TracedFleet({
      config,
      ...(options.hashBlockTokens !== undefined && { hashBlockTokens: options.hashBlockTokens }),
      clock: this.#clock,
      module,
      engines,
      clients,
      onEnd: this.#ended,
      onStep: this.#stepped,
      observer,
      meters: meters ? () => meters(() => this.#clock.now()) : null,
      beforeUpdate,
    });
    const send = (request: TraceRequest) => this.#submit(request);
    this.#arrivals = new TraceArrivals({ requests: options.requests, clock: this.#clock, send });
    this.#arrivals.advance();
  }

  /** Runs to the end; simulated microseconds until the last request ended, or until `untilUs`. Throws what the trace throws. */
  run(): number {
    this.#fill();
    while (this.#goesOn) this.#slice();
    return this.#end();
  }

  /** Runs to the end, and waits for each scrape. */
  async runScraped(): Promise<number> {
    await this.#scrape();
    this.#fill();
    while (this.#goesOn) {
      this.#slice();
      if (this.#clock.now() >= this.#scrapeUs) await this.#scrape();
    }
    const endUs = this.#end();
    // The scrape that shows the last end.
    if (endUs < this.#options.untilUs && this.#scrapeUs - this.#options.scrapes!.intervalUs <= endUs) {
      this.#clock.until(this.#scrapeUs);
      await this.#scrape();
    }
    return endUs;
  }

  get nowUs(): number {
    return this.#clock.now();
  }

  get #goesOn(): boolean {
    return (this.#arrivals.hasMore || this.#live > 0) && this.#clock.now() < this.#options.untilUs;
  }

  /** As far as nothing comes from outside. */
  #slice(): void {
    const { untilUs } = this.#options;
    const clock = this.#clock;
    const { next } = this.#arrivals;
    const arrivalUs = next !== undefined && this.#live < this.#most ? next.arrivalUs : Number.POSITIVE_INFINITY;
    clock.until(Math.min(arrivalUs, this.#rowUs, this.#scrapeUs, untilUs));
    if (clock.now() >= this.#rowUs) this.#row();
    if (clock.now() >= untilUs) return;
    this.#fill();
  }

  #end(): number {
    const clock = this.#clock;
    if (clock.now() >= this.#options.untilUs) return this.#options.untilUs;
    // The row that shows the last end, and the empty step that an asynchronous engine still has open.
    if (this.#options.series && this.#rowUs - this.#options.series.intervalUs <= this.#lastEndUs) {
      clock.until(this.#rowUs);
      this.#row();
    }
    clock.drain();
    return this.#lastEndUs;
  }

  /** No more steps; an observer is told of those that are unfinished. */
  stop(): void {
    for (const engine of this.fleet.engines) engine.stop();
  }

  get unfinished(): number {
    return this.#live;
  }

  /** Submits what is due: in an open loop all that has arrived by now, in a closed one as many as there is room for. */
  #fill(): void {
    const closed = this.#most !== Number.POSITIVE_INFINITY;
    const nowUs = this.#clock.now();
    const arrivals = this.#arrivals;
    for (let { next } = arrivals; next !== undefined && this.#live < this.#most; { next } = arrivals) {
      if (!closed && next.arrivalUs > nowUs) break;
      this.#submit(next);
      arrivals.advance();
    }
  }

  #submit(request: TraceRequest): void {
    const { counts } = this;
    counts.arrived++;
    if (this.#isShown) this.accounts.opened();
    this.#arrivals.sent(request);
    const outcome = this.fleet.submit(request);
    if (outcome === "tooLong" || outcome === "busy") {
      counts[outcome]++;
      this.#arrivals.ended(request.conversation);
      if (!this.#isShown) return;
      this.accounts.settled("refused");
      const nowUs = this.#clock.now();
      this.#http.count(0, nowUs, outcome === "tooLong" ? BAD_REQUEST : UNAVAILABLE, 0, 0);
      return;
    }
    if (this.#isShown) this.accounts.stream(1);
    this.#live++;
    if (outcome === "cut") counts.cut++;
  }

  readonly #ended = (reason: Finish, arrivalUs: number, conversation: string | undefined): void => {
    this.#live--;
    this.#arrivals.ended(conversation);
    this.#lastEndUs = this.#clock.now();
    this.counts[COUNTED[reason]]++;
    if (!this.#isShown) return;
    this.accounts.stream(-1);
    this.#http.count(0, arrivalUs, OK, 0, 0);
    this.accounts.settled(OUTCOMES[reason]);
  };

  /** In a closed loop those that ended in a step make room; not before all its ends are told, since slots are used again. */
  readonly #stepped = (): void => {
    this.#steps++;
    this.#collect();
    this.#options.onProgress?.(this.#clock.now(), this.counts);
    if (this.#live < this.#most && this.#most !== Number.POSITIVE_INFINITY) this.#fill();
  };

  #collect(): void {
    const work = this.counts.arrived + this.#steps / STEPS_PER_REQUEST;
    if (work < this.#collectAt) return;
    this.#collectAt = work + COLLECT_EVERY;
    this.#options.collect?.();
  }

  #row(): void {
    const { intervalUs, onRow } = this.#options.series!;
    onRow(this.#rowUs, this.fleet.snapshots(), this.counts);
    this.#rowUs += intervalUs;
  }

  async #scrape(): Promise<void> {
    const { intervalUs, onScrape } = this.#options.scrapes!;
    await onScrape(this.#scrapeUs);
    this.#scrapeUs += intervalUs;
  }
}

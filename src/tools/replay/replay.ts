/**
 * Replays a trace on engines in simulated time. Requests are submitted at their times (open loop) or when others end (closed
 * loop). Time jumps from one event to the next. The engine and its loop are those of the server.
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

/** Work between two calls of `collect`, in requests. STEPS_PER_REQUEST steps count as one request. */
const COLLECT_EVERY = 40_000;
const STEPS_PER_REQUEST = 16;

/** Route whose requests HTTP metrics count. All requests are streamed completions. */
export const HTTP_ROUTES: readonly HttpRoute[] = [{ handler: "/v1/completions", method: "POST" }];
const OK = 200;
const BAD_REQUEST = 400;
const UNAVAILABLE = 503;

/** The count of each finish reason. `Error`: the KV pool was too small for the request. */
const COUNTED = {
  [Finish.Stop]: "finished",
  [Finish.Length]: "finished",
  [Finish.Repetition]: "finished",
  [Finish.Abort]: "left",
  [Finish.Error]: "busy",
} as const;
/** The server's outcome for each finish reason. */
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
  /** End of the replay. Requests that run then are unfinished; Infinity: the end of the last request. */
  readonly untilUs: number;
  /** Behavior of clients. Absent: they limit answers to the traced length and wait for the end. */
  readonly clients?: TracedClientOptions;
  /** `onRow` is called after each interval of simulated time. */
  readonly series?: {
    readonly intervalUs: number;
    readonly onRow: (atUs: number, engines: readonly EngineSnapshot[], counts: Counts) => void;
  };
  /** `onScrape` is called at 0 and after each interval. Simulated time waits for it. Needs `runScraped`. */
  readonly scrapes?: { readonly intervalUs: number; readonly onScrape: (atUs: number) => Promise<void> };
  /** Called before each update with its time, so that metrics can copy values that are about to change. */
  readonly beforeUpdate?: (nowUs: number) => void;
  /** Returns the observer of every step and request of the engine with this index. */
  readonly observer?: (engine: number) => Observer;
  /** Returns meters for an engine, which count starts and ends of requests. `now`: the replay's time. */
  readonly meters?: (now: () => number) => RequestMeters;
  /** Runs the garbage collector. Left alone it runs too rarely, because it counts the core's large, mostly unused memory as live. */
  readonly collect?: () => void;
  readonly onProgress?: (atUs: number, counts: Counts) => void;
}

/** Numbers of requests so far. arrived = finished + left + tooLong + busy + unfinished. */
export interface Counts {
  arrived: number;
  finished: number;
  /** Requests whose clients disconnected before the end. */
  left: number;
  /** Requests whose output the context limit made shorter than in the trace. */
  cut: number;
  tooLong: number;
  busy: number;
}

export class Replay {
  readonly counts: Counts = { arrived: 0, finished: 0, left: 0, cut: 0, tooLong: 0, busy: 0 };
  /** Requests by outcome, as in the server. Not counted without `beforeUpdate`, because only metrics pages show them. */
  readonly accounts: Accounts;
  readonly fleet: TracedFleet;
  readonly #clock = new VirtualClock();
  readonly #isShown: boolean;
  readonly #http = new HttpAccounts(HTTP_ROUTES, () => this.#clock.now());
  /** Concurrency of a closed loop; Infinity in an open one. */
  readonly #concurrency: number;
  readonly #arrivals: TraceArrivals;
  readonly #hasRoom = () => this.#live < this.#concurrency;
  #live = 0;
  #lastEndUs = 0;
  #steps = 0;
  #collectAt = COLLECT_EVERY;
  #rowUs: number;
  #scrapeUs: number;

  constructor(private readonly options: ReplayOptions) {
    this.#isShown = options.beforeUpdate !== undefined;
    this.accounts = new Accounts(this.#http);
    this.#concurrency = options.pace.kind === "closed" ? options.pace.concurrency : Number.POSITIVE_INFINITY;
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

  /** Runs to the end. Returns the simulated microseconds of the last end, or `untilUs`. Throws the errors of the trace. */
  run(): number {
    this.#fill();
    while (this.#goesOn) this.#slice();
    return this.#end();
  }

  /** Like `run`, but waits for each scrape. */
  async runScraped(): Promise<number> {
    await this.#scrape();
    this.#fill();
    while (this.#goesOn) {
      this.#slice();
      if (this.#clock.now() >= this.#scrapeUs) await this.#scrape();
    }
    const endUs = this.#end();
    // One more scrape, which shows the end of the last request.
    if (endUs < this.options.untilUs && this.#scrapeUs - this.options.scrapes!.intervalUs <= endUs) {
      this.#clock.until(this.#scrapeUs);
      await this.#scrape();
    }
    return endUs;
  }

  get nowUs(): number {
    return this.#clock.now();
  }

  get #goesOn(): boolean {
    return (this.#arrivals.hasMore || this.#live > 0) && this.#clock.now() < this.options.untilUs;
  }

  /** Runs until the next arrival, row, scrape or the end. */
  #slice(): void {
    const { untilUs } = this.options;
    const clock = this.#clock;
    const { next } = this.#arrivals;
    const arrivalUs = next !== undefined && this.#live < this.#concurrency ? next.arrivalUs : Number.POSITIVE_INFINITY;
    clock.until(Math.min(arrivalUs, this.#rowUs, this.#scrapeUs, untilUs));
    if (clock.now() >= this.#rowUs) this.#row();
    if (clock.now() >= untilUs) return;
    this.#fill();
  }

  #end(): number {
    const clock = this.#clock;
    if (clock.now() >= this.options.untilUs) return this.options.untilUs;
    // One more row, which shows the end of the last request. `drain` runs the empty step that an asynchronous engine still has.
    if (this.options.series && this.#rowUs - this.options.series.intervalUs <= this.#lastEndUs) {
      clock.until(this.#rowUs);
      this.#row();
    }
    clock.drain();
    return this.#lastEndUs;
  }

  /** Stops the engines. Observers get the unfinished requests. */
  stop(): void {
    for (const engine of this.fleet.engines) engine.stop();
  }

  get unfinished(): number {
    return this.#live;
  }

  /** Submits due requests: in an open loop those that have arrived, in a closed loop up to the concurrency. */
  #fill(): void {
    const closed = this.#concurrency !== Number.POSITIVE_INFINITY;
    this.#arrivals.fill(this.#hasRoom, closed ? Number.POSITIVE_INFINITY : this.#clock.now());
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

  /** Submits requests in a closed loop after a step. Not at each end, because the core reuses the slots of ended requests. */
  readonly #stepped = (): void => {
    this.#steps++;
    this.#collect();
    this.options.onProgress?.(this.#clock.now(), this.counts);
    if (this.#live < this.#concurrency && this.#concurrency !== Number.POSITIVE_INFINITY) this.#fill();
  };

  #collect(): void {
    const work = this.counts.arrived + this.#steps / STEPS_PER_REQUEST;
    if (work < this.#collectAt) return;
    this.#collectAt = work + COLLECT_EVERY;
    this.options.collect?.();
  }

  #row(): void {
    const { intervalUs, onRow } = this.options.series!;
    onRow(this.#rowUs, this.fleet.snapshots(), this.counts);
    this.#rowUs += intervalUs;
  }

  async #scrape(): Promise<void> {
    const { intervalUs, onScrape } = this.options.scrapes!;
    await onScrape(this.#scrapeUs);
    this.#scrapeUs += intervalUs;
  }
}

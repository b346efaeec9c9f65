/**
 * Counts what happens outside the core: generation requests by their outcomes, and HTTP requests by route as vLLM's middleware
 * does. Each request is counted once, however it ends.
 */

import { droppedLogLines } from "../base/line-writer.ts";
import { logUnexpected } from "../base/unexpected.ts";
import { BucketCounts } from "../engine/interface/bucket-counts.ts";
import {
  FRONT_NAMES,
  numbersOf,
  type ParsedApi,
  type ParsedHow,
  TOOL_LOOKS,
  type ToolLook,
  toolLook,
} from "../engine/interface/numbers.ts";
import type { FrontSnapshot, FrontView, HttpView, Outcome } from "../engine/interface/types.ts";
import { FAULT_IDS } from "../faults/ids.ts";
import type { KvEventsLosses } from "../kv-events/worker.ts";
import {
  ALL_SECONDS,
  HTTP_WIDTH,
  type HttpRoute,
  HttpWord,
  isExcluded,
  NO_HANDLER,
  ROUTE_SECONDS,
} from "../metrics/rows/http-counts.ts";
import type { Deadlines, TimedItem } from "../wire/http/deadlines.ts";
import type { HttpRequest } from "../wire/http/request.ts";

const NO_LOSSES: KvEventsLosses = { batches: 0, events: 0, messages: 0 };
const NO_HTTP: HttpView = {
  routes: [],
  duration: { bounds: ALL_SECONDS, buckets: new Float64Array(ALL_SECONDS.length + 1), sum: 0, count: 0 },
};

/** Counts requests and streams. Each request to a generation route is opened and settled exactly once, however it ends. */
export type Accounting = Pick<Accounts, "opened" | "settled" | "stream" | "held"> &
  Partial<Pick<Accounts, "parsed" | "faulted" | "rejected">>;

export class Accounts implements FrontView {
  readonly outcomes: Record<Outcome, number> = { stop: 0, length: 0, abort: 0, refused: 0, error: 0 };
  readonly toolLooks = Object.fromEntries(TOOL_LOOKS.map((look) => [look, 0])) as Record<ToolLook, number>;
  readonly faults = Object.fromEntries(FAULT_IDS.map((id) => [id, 0])) as Record<string, number>;
  requestsOpen = 0;
  streamsOpen = 0;
  bytesHeld = 0;
  rejectedByRequests = 0;
  rejectedByTokens = 0;
  readonly workerRestarts = 0;

  /** `http`: counts of HTTP requests by route. `moved`: called after each change. `kvLosses`: returns those of KV events. */
  constructor(
    readonly http: HttpView = NO_HTTP,
    private readonly moved: () => void = () => {},
    private readonly kvLosses: () => KvEventsLosses = () => NO_LOSSES,
  ) {}

  get kvBatchesDropped(): number {
    return this.kvLosses().batches;
  }

  get kvEventsDropped(): number {
    return this.kvLosses().events;
  }

  get kvMessagesDropped(): number {
    return this.kvLosses().messages;
  }

  /** Counts lines of the whole process, because all of its servers share standard output. */
  get logLinesDropped(): number {
    return droppedLogLines();
  }

  opened(): void {
    this.requestsOpen++;
    this.moved();
  }

  settled(outcome: Outcome): void {
    this.requestsOpen--;
    this.outcomes[outcome]++;
    this.moved();
  }

  /** Counts an event stream that began (1) or ended (-1). */
  stream(change: 1 | -1): void {
    this.streamsOpen += change;
    this.moved();
  }

  /** Adds to the bytes that wait for slow clients. Negative: fewer wait. */
  held(bytes: number): void {
    this.bytesHeld += bytes;
    this.moved();
  }

  /** Counts a request that a limit of the queue refused. */
  rejected(by: "requests" | "tokens"): void {
    if (by === "requests") this.rejectedByRequests++;
    else this.rejectedByTokens++;
    this.moved();
  }

  /** Counts a delta or a whole answer that a parser of tool calls has read. */
  parsed(how: ParsedHow, called: boolean, api: ParsedApi): void {
    this.toolLooks[toolLook(how, called, api)]++;
    this.moved();
  }

  /** Counts an answer that a fault acted on, by the id of the fault. */
  faulted(id: string): void {
    this.faults[id]!++;
    this.moved();
  }

  /** Returns a copy of all numbers. */
  snapshot(): FrontSnapshot {
    const { routes, duration } = this.http;
    const { bounds, buckets, sum, count } = duration;
    const http = { routes: Array.from(routes), duration: { bounds, buckets: Array.from(buckets), sum, count } };
    return {
      ...numbersOf(this, FRONT_NAMES),
      outcomes: { ...this.outcomes },
      toolLooks: { ...this.toolLooks },
      faults: { ...this.faults },
      http,
    };
  }
}

/**
 * Key of the property in which a request keeps its counter until it ends. A property, because a weak map with thousands of
 * entries a second would make garbage collections slow.
 */
const VISIT = Symbol("visit");
type Visiting = HttpRequest & { [VISIT]?: CountedVisit | undefined };

/** Counts each HTTP request when its answer is complete, by the route that took it. */
export class HttpAccounts implements HttpView {
  readonly routes: Float64Array;
  readonly duration = new BucketCounts(ALL_SECONDS);
  /** Index of a route by method and handler. */
  readonly #places = new Map<string, Map<string, number>>();

  /** `counted` is called after each request that counts. */
  constructor(
    routes: readonly HttpRoute[],
    private readonly nowUs: () => number,
    private readonly counted: () => void = () => {},
  ) {
    this.routes = new Float64Array(routes.length * HTTP_WIDTH);
    for (const [index, { handler, method }] of routes.entries()) {
      const handlers = this.#places.get(method) ?? new Map<string, number>();
      this.#places.set(method, handlers.set(handler, index));
    }
  }

  came(request: Visiting, path: string): void {
    const places = this.#places.get(request.method);
    const known = places?.get(path);
    if (known === undefined && isExcluded(path)) return;
    const place = known ?? places?.get(NO_HANDLER);
    if (place === undefined) return;
    const bytes = Number(request.headers.get("content-length") ?? 0) || 0;
    request[VISIT] = new CountedVisit(this, place, this.nowUs(), bytes);
  }

  take(request: Visiting): CountedVisit | undefined {
    const visit = request[VISIT];
    if (visit !== undefined) request[VISIT] = undefined;
    return visit;
  }

  /** Adds a complete answer to the numbers of its route. `CountedVisit` calls it. `place`: index of the route. */
  count(place: number, cameUs: number, status: number, requestBytes: number, responseBytes: number): void {
    const { routes } = this;
    const at = place * HTTP_WIDTH;
    const nowUs = this.nowUs();
    const seconds = (nowUs - cameUs) / 1e6;
    const statusClass = Math.floor(status / 100) - 1;
    routes[at + HttpWord.answers + statusClass]!++;
    if (routes[at + HttpWord.since + statusClass] === 0) routes[at + HttpWord.since + statusClass] = nowUs / 1e6;
    let bucket = 0;
    while (bucket < ROUTE_SECONDS.length && seconds > ROUTE_SECONDS[bucket]!) bucket++;
    routes[at + HttpWord.buckets + bucket]!++;
    routes[at + HttpWord.seconds]! += seconds;
    routes[at + HttpWord.requestBytes]! += requestBytes;
    routes[at + HttpWord.responseBytes]! += responseBytes;
    this.duration.observe(seconds);
    this.counted();
  }
}

/** Counts one HTTP request, from its head to the end of its answer. */
export class CountedVisit {
  constructor(
    private accounts: HttpAccounts | null,
    readonly place: number,
    readonly cameUs: number,
    readonly requestBytes: number,
  ) {}

  /** Counts a complete answer. Later calls have no effect. `responseBytes` is 0 for a stream, which has no content-length. */
  done(status: number, responseBytes: number): void {
    const { accounts } = this;
    this.accounts = null;
    accounts?.count(this.place, this.cameUs, status, this.requestBytes, responseBytes);
  }
}

const notCounted = (error: unknown): void =>
  logUnexpected("a request ended, and is missing in some of the numbers", error);

function tell(listener: ((outcome: Outcome) => void) | null, outcome: Outcome): void {
  try {
    listener?.(outcome);
  } catch (error) {
    notCounted(error);
  }
}

/** The part of `CountedOnce` that receives the outcome of a generation request. */
export type Ticket = Pick<CountedOnce, "settle">;
/** The part of `CountedVisit` that counts the answer of an HTTP request. */
export type HttpVisit = Pick<CountedVisit, "done">;

/**
 * Counts the outcome of one generation request, once. An object, because a closure per request would hold the request's body as
 * long as the stream lasts.
 */
export class CountedOnce {
  #told: ((outcome: Outcome) => void) | null = null;
  #accounting: Pick<Accounting, "stream"> | null = null;
  #visit: HttpVisit | null = null;
  #deadlines: Deadlines | null = null;
  #watched: TimedItem | null = null;

  constructor(private settled: ((outcome: Outcome) => void) | null) {}

  /** Counts the outcome. Later calls have no effect. Never throws, because an error in counting must not stop the answer. */
  settle(outcome: Outcome): void {
    const { settled } = this;
    const told = this.#told;
    this.settled = null;
    this.#told = null;
    tell(settled, outcome);
    tell(told, outcome);
    try {
      this.#end();
    } catch (error) {
      notCounted(error);
    }
  }

  #end(): void {
    if (this.#watched !== null) this.#deadlines?.forget(this.#watched);
    this.#watched = null;
    const accounting = this.#accounting;
    this.#accounting = null;
    accounting?.stream(-1);
    this.#visit?.done(200, 0);
  }

  /** Sets a further function that `settle` calls with the outcome. */
  tell(told: (outcome: Outcome) => void): void {
    this.#told = told;
  }

  /** Lets `deadlines` watch the answer until the request is settled. null: the answer has no deadline. */
  within(deadlines: Deadlines | null, answer: TimedItem): void {
    if (deadlines === null || this.settled === null) return;
    this.#deadlines = deadlines;
    this.#watched = answer;
    deadlines.watch(answer);
  }

  /** Counts the answer as an open event stream until the request is settled. If it is settled already, counts only the visit. */
  streams(accounting: Pick<Accounting, "stream">, visit: HttpVisit | null): void {
    if (this.settled === null) {
      visit?.done(200, 0);
      return;
    }
    accounting.stream(1);
    this.#accounting = accounting;
    this.#visit = visit;
  }
}

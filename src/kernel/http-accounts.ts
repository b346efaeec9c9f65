/** What does vLLM's HTTP middleware count? Each request once, when its answer is complete, by the route that took it. */

import { BucketCounts } from "../engine/interface/bucket-counts.ts";
import type { HttpView } from "../engine/interface/types.ts";
import {
  ALL_SECONDS,
  HTTP_WIDTH,
  type HttpRoute,
  HttpWord,
  isExcluded,
  NO_HANDLER,
  ROUTE_SECONDS,
} from "../metrics/rows/http-counts.ts";
import type { HttpRequest } from "../wire/http/request.ts";

/**
 * Key of a request's visit, until whoever ends it takes it: a weak map of thousands a second costs collections their
 * time.
 */
const VISIT = Symbol("visit");
type Visiting = HttpRequest & { [VISIT]?: CountedVisit | undefined };

export class HttpAccounts implements HttpView {
  readonly routes: Float64Array;
  readonly duration = new BucketCounts(ALL_SECONDS);
  /** By method and handler. */
  readonly #places = new Map<string, Map<string, number>>();
  readonly #nowUs: () => number;
  readonly #counted: () => void;

  /** `counted` is called after each request that counts. */
  constructor(routes: readonly HttpRoute[], nowUs: () => number, counted: () => void = () => {}) {
    this.routes = new Float64Array(routes.length * HTTP_WIDTH);
    for (const [index, { handler, method }] of routes.entries()) {
      const handlers = this.#places.get(method) ?? new Map<string, number>();
      this.#places.set(method, handlers.set(handler, index));
    }
    this.#nowUs = nowUs;
    this.#counted = counted;
  }

  came(request: Visiting, path: string): void {
    const places = this.#places.get(request.method);
    const known = places?.get(path);
    if (known === undefined && isExcluded(path)) return;
    const place = known ?? places?.get(NO_HANDLER);
    if (place === undefined) return;
    const bytes = Number(request.headers.get("content-length") ?? 0) || 0;
    request[VISIT] = new CountedVisit(this, place, this.#nowUs(), bytes);
  }

  take(request: Visiting): CountedVisit | undefined {
    const visit = request[VISIT];
    if (visit !== undefined) request[VISIT] = undefined;
    return visit;
  }

  /** For `HttpVisit`. */
  count(place: number, cameUs: number, status: number, requestBytes: number, responseBytes: number): void {
    const { routes } = this;
    const at = place * HTTP_WIDTH;
    const nowUs = this.#nowUs();
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
    this.#counted();
  }
}

/** One request on its way. */
export class CountedVisit {
  #accounts: HttpAccounts | null;

  constructor(
    accounts: HttpAccounts,
    readonly place: number,
    readonly cameUs: number,
    readonly requestBytes: number,
  ) {
    this.#accounts = accounts;
  }

  /** Counts a complete answer; the first call counts. `responseBytes` is 0 for a stream, which has no content-length. */
  done(status: number, responseBytes: number): void {
    const accounts = this.#accounts;
    this.#accounts = null;
    accounts?.count(this.place, this.cameUs, status, this.requestBytes, responseBytes);
  }
}

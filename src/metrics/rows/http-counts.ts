/**
 * Defines which HTTP requests are counted and how, like vLLM 0.33's middleware (prometheus-fastapi-instrumentator 8.1,
 * set up in `entrypoints/serve/instrumentator/metrics.py`). Shared by the code that counts and the tables that print.
 */

/** A served path and one of its methods, or `NO_HANDLER` for all other requests. */
export interface HttpRoute {
  readonly handler: string;
  readonly method: string;
}

export const NO_HANDLER = "none";
/** Methods that Bun accepts. */
const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];
/** Prefix of routes that only Understudy has. */
export const OWN_PATHS = "/understudy/";
/** Matched anywhere in a path. */
const EXCLUDED = /\/metrics|\/health|\/load|\/ping|\/version|\/server_info/;

export const STATUS_CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;
/** Bounds of durations by route, and of all routes together, in seconds. */
export const ROUTE_SECONDS: readonly number[] = [0.1, 0.5, 1];
export const ALL_SECONDS: readonly number[] = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
];

/** Offsets of the numbers of one route. */
export const HttpWord = {
  /** Answers by class of status. */
  answers: 0,
  /** When the first answer of each class was complete, in seconds of the engine's clock. 0: never. */
  since: 5,
  buckets: 10,
  seconds: 14,
  requestBytes: 15,
  responseBytes: 16,
} as const;
export const HTTP_WIDTH = 17;

export const isExcluded = (path: string): boolean => EXCLUDED.test(path) || path.startsWith(OWN_PATHS);

/** Returns all routes that can be counted if these paths are served with these methods. */
export function httpRoutes(served: Readonly<Record<string, readonly string[]>>): HttpRoute[] {
  const routes = Object.entries(served)
    .filter(([path]) => !isExcluded(path))
    .flatMap(([handler, methods]) => methods.map((method) => ({ handler, method })));
  return [...routes, ...METHODS.map((method) => ({ handler: NO_HANDLER, method }))];
}

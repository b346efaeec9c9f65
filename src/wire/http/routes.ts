/**
 * Tables of routes. A server declares its routes in one table; `application` (elysia.ts) builds Elysia from it, and hot routes
 * are called without Elysia. Handlers read and check bodies themselves.
 */
import type { HttpRequest } from "./request.ts";
import type { Context, HotRoutes, HttpFront } from "./sink.ts";

type Answer = Response | Promise<Response>;

export type Handler = (context: Context, params: Readonly<Record<string, string>>) => Answer;

export interface RouteEntry {
  /** In capitals; `ALL` for all methods. */
  readonly method: string;
  /** As Elysia spells it: `/v1/responses/:id`, `/understudy/requests/*`. */
  readonly path: string;
  readonly handle: Handler;
  /** True if the server on sockets calls the handler itself: Elysia's way to a handler costs as much as reading the request. */
  readonly isHot: boolean;
}

export interface RouteTable {
  readonly routes: readonly RouteEntry[];
  /** Called before every request, also if no route takes it. A response ends the request. */
  readonly before?: (context: Context) => Response | undefined;
  /** Answers a request that no route takes. Without it Elysia does. */
  readonly unmatched?: (context: Context) => Response;
  /** Answers a request whose handler threw, if it came through Elysia. Without it Elysia does. */
  readonly failed?: (context: Context, error: unknown) => Response;
}

/** A table of routes, ready to be served. */
export interface Application {
  /** Answers a request from a socket that no hot route takes. */
  fetch(request: HttpRequest): Answer;
  /** Routes that are called without `fetch`. Undefined: none. */
  readonly hot?: HotRoutes;
  /** Called once by the server that sends the answers. */
  attach?(front: HttpFront): void;
  /** Loads what `fetch` needs, which the first call of `fetch` does otherwise. Absent: nothing is left to load. */
  load?(): Promise<void>;
}

/** Makes routes of handlers by method and path: `POST /pause`. `hot`: true if all are hot, or the list of the hot ones. */
export const routes = (
  handlers: Readonly<Record<string, Handler>>,
  hot: boolean | readonly string[] = false,
): RouteEntry[] =>
  Object.entries(handlers).map(([route, handle]) => {
    const [method = "", path = ""] = route.split(" ");
    return { method, path, handle, isHot: typeof hot === "boolean" ? hot : hot.includes(route) };
  });

/**
 * Indexes the hot routes of a table, with `before` called ahead of each. Does not find paths with parameters, or targets with a
 * query.
 */
export function hotRoutes({ routes: all, before }: RouteTable): HotRoutes {
  const byMethod = new Map<string, Map<string, (context: Context) => Answer>>();
  for (const { method, path, handle, isHot } of all) {
    if (!isHot) continue;
    const byPath = byMethod.get(method) ?? new Map<string, (context: Context) => Answer>();
    const call = (context: Context) => before?.(context) ?? handle(context, NO_PARAMS);
    byMethod.set(method, byPath.set(path, call));
  }
  return { of: (method, target) => byMethod.get(method)?.get(target) };
}

/** Parameters of a path that has no parameters. */
export const NO_PARAMS: Readonly<Record<string, string>> = {};

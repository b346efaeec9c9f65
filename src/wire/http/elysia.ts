/**
 * Builds Elysia from a table of routes. Elysia matches paths, and serves all but the hot routes, and programs that call
 * `app.handle(request)`. Nothing here reads what Elysia keeps of the routes.
 *
 * Elysia is loaded by the first request that needs it, or by `load` in idle time. Loading takes 20 to 40 ms, as much as all
 * other code of a server's start.
 */
import type { Elysia } from "elysia";
import { asResponses } from "./as-response.ts";
import { type Application, hotRoutes, NO_PARAMS, type RouteTable } from "./routes.ts";
import type { Context, HttpFront } from "./sink.ts";

export interface ElysiaApplication extends Required<Application> {
  /** Answers a program's request without a socket. */
  handle(request: Request): Promise<Response>;
}

export function application(table: RouteTable): ElysiaApplication {
  let server: HttpFront | null = null;
  // A request from a socket is never a web `Request`.
  const contextOf = (request: Request): Context => ({
    request,
    front: request instanceof Request ? asResponses : server!,
  });
  let app: Pick<Elysia, "fetch" | "handle"> | null = null;
  let loading: Promise<Pick<Elysia, "fetch" | "handle">> | null = null;
  const loaded = async () => {
    loading ??= elysiaOf(table, contextOf);
    app = await loading;
    return app;
  };
  return {
    // Elysia reads method and URL of a request, both of which the socket's request has.
    fetch: (request) =>
      app === null ? loaded().then((elysia) => elysia.fetch(request as Request)) : app.fetch(request as Request),
    hot: hotRoutes(table),
    handle: async (request) => (await loaded()).handle(request),
    load: async () => void (await loaded()),
    attach(front) {
      server = front;
    },
  };
}

async function elysiaOf({ before, unmatched, failed, routes }: RouteTable, contextOf: (request: Request) => Context) {
  const { Elysia } = await import("elysia");
  // A path with an additional slash at its end is another path, which FastAPI redirects.
  const app = new Elysia({ strictPath: true });
  // Elysia reads the text of these functions to find the members of its context that they need.
  if (before) app.onRequest(({ request }) => before(contextOf(request)));
  if (unmatched || failed)
    app.onError(({ code, error, request }) =>
      code === "NOT_FOUND" ? unmatched?.(contextOf(request)) : failed?.(contextOf(request), error),
    );
  // `params` is undefined for a path without parameters, although the types deny it.
  for (const { method, path, handle } of routes)
    app.route(method, path, ({ request, params }) => handle(contextOf(request), params ?? NO_PARAMS), {
      parse: "none",
    });
  return app;
}

/**
 * Builds Elysia from a table of routes. Elysia matches paths, and serves all but the hot routes, and programs that call
 * `app.handle(request)`. Nothing here reads what Elysia keeps of the routes.
 */
import { Elysia } from "elysia";
import { type Application, hotRoutes, NO_PARAMS, type RouteTable } from "./routes.ts";
import type { HttpFront } from "./sink.ts";

export interface ElysiaApplication extends Required<Application> {
  /** Answers a program's request without a socket. */
  handle(request: Request): Promise<Response>;
}

export function application(table: RouteTable): ElysiaApplication {
  const { before, unmatched, failed } = table;
  let server: HttpFront | null = null;
  // A slash too many is another path: FastAPI redirects it.
  const app = new Elysia({ strictPath: true });
  // Elysia reads the text of these functions to find the members of its context that they need.
  if (before) app.onRequest(({ request }) => before({ request, server }));
  if (unmatched || failed)
    app.onError(({ code, error, request }) =>
      code === "NOT_FOUND" ? unmatched?.({ request, server }) : failed?.({ request, server }, error),
    );
  // `params` is undefined for a path without parameters, although the types deny it.
  for (const { method, path, handle } of table.routes)
    app.route(method, path, ({ request, params }) => handle({ request, server }, params ?? NO_PARAMS), {
      parse: "none",
    });
  return {
    // Elysia reads method and URL of a request, both of which the socket's request has.
    fetch: (request) => app.fetch(request as Request),
    hot: hotRoutes(table),
    handle: app.handle,
    attach(front) {
      server = front;
    },
  };
}

/** How is a path served by who wants a context and nothing else? Bodies are read and checked there, by vLLM's rules. */
import { Elysia } from "elysia";
import type { Context } from "./sink.ts";

export type Handler = (context: Context, params: Readonly<Record<string, string>>) => Response | Promise<Response>;

/** By method and path: `POST /pause`. */
export function routes(handlers: Readonly<Record<string, Handler>>): Elysia {
  const app = new Elysia({ strictPath: true });
  for (const [route, handle] of Object.entries(handlers)) {
    const [method = "", path = ""] = route.split(" ");
    // Elysia makes of the context what a handler names.
    app.route(method, path, ({ request, server, params }) => handle({ request, server }, params), { parse: "none" });
  }
  return app;
}

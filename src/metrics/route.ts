/**
 * Routes of the metrics. `/metrics` has the role's dialect and then our own families, `/metrics/all` has every dialect, and
 * each dialect has its own path. `GET /metrics` returns the text format whatever Accept says, as vLLM 0.33 does
 * (prometheus-fastapi-instrumentator 8.1). `/metrics/` and our own paths negotiate the format, and
 * `?format=openmetrics` works on all.
 */

import { logUnexpected } from "../base/unexpected.ts";
import type { HttpRequest } from "../wire/http/request.ts";
import { type RouteEntry, routes } from "../wire/http/routes.ts";
import type { Context } from "../wire/http/sink.ts";
import { contentTypeOf, isOnlyOpenMetrics, type View } from "./dialects.ts";
import type { PageFormat } from "./order.ts";
import { type Renderer, TooManyScrapes } from "./renderer.ts";
import { dialectNames } from "./rows/dialect-names.ts";
import type { Identity } from "./rows/identity.ts";

const OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN = "text/plain; version=0.0.4; charset=utf-8";

/** View of each path. */
const PATHS: Readonly<Record<string, View>> = {
  "/metrics": "role",
  "/metrics/": "role",
  "/metrics/all": "all",
  ...Object.fromEntries(dialectNames.map((name) => [`/metrics/${name}`, name])),
};
/** Paths for a server whose own `/metrics` is not made here. */
export const OWN_METRICS = ["/metrics/understudy"] as const;
/** Paths and their methods. */
export const METRICS_METHODS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.keys(PATHS).map((path) => [path, ["GET"]]),
);

/** Returns a route for each path. The renderer makes the pages. */
export function metrics(
  renderer: Renderer,
  identity: Identity,
  paths: readonly string[] = Object.keys(PATHS),
): RouteEntry[] {
  const scraped = async (context: Context, view: View) => {
    const { request } = context;
    // Elysia routes `/metrics` and `/metrics/` to the same handler.
    const plain = /\/metrics(\?|$)/.test(request.url);
    const contentType = view === "role" && !plain ? PLAIN : contentTypeOf(view, identity);
    const format = formatOf(request, !plain);
    try {
      const page = await renderer.page(view, format);
      const isText = format === "text" && !isOnlyOpenMetrics(view, identity);
      const headers = { "content-type": isText ? contentType : OPENMETRICS };
      return context.front.answer(request, 200, headers, page);
    } catch (reason) {
      if (reason instanceof TooManyScrapes)
        return new Response("too many scrapes at once\n", { status: 503, headers: { "retry-after": "1" } });
      logUnexpected("a scrape failed and is answered with 500", reason);
      return new Response("Internal Server Error", { status: 500 });
    }
  };
  return paths.flatMap((path) => routes({ [`GET ${path}`]: (context) => scraped(context, PATHS[path]!) }, true));
}

function formatOf({ url, headers }: HttpRequest, negotiates: boolean): PageFormat {
  const stated = /[?&]format=([^&]*)/.exec(url)?.[1];
  if (stated !== undefined) return stated === "openmetrics" ? "openmetrics" : "text";
  return negotiates && wantsOpenMetrics(headers.get("accept") ?? "") ? "openmetrics" : "text";
}

/** Chooses like prometheus_client 0.26 (`exposition.py`, `choose_encoder`): OpenMetrics if any accepted type is OpenMetrics. Ignores q. */
function wantsOpenMetrics(accept: string): boolean {
  return accept.split(",").some((accepted) => {
    const [type, ...parameters] = accepted.split(";").map((part) => part.trim());
    const version = parameters.find((parameter) => parameter.startsWith("version="))?.slice("version=".length);
    return type === "application/openmetrics-text" && Number.parseInt(version ?? "1", 10) >= 1;
  });
}

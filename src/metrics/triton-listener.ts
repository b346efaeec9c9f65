/**
 * Triton's metrics port: `GET /metrics`, with or without a trailing slash. Any other path is an empty 200 and any other
 * method 405, as in tritonserver 2.51 (`http_server.cc`, `HTTPMetricsServer`), with the bytes of its HTTP library.
 */
import { logUnexpected } from "../base/unexpected.ts";
import { application } from "../wire/http/elysia.ts";
import type { ConnectionLimits } from "../wire/http/front-limits.ts";
import { FRONT_LIMITS } from "../wire/http/front-limits.ts";
import { routes } from "../wire/http/routes.ts";
import type { Context, HotRoutes } from "../wire/http/sink.ts";
import { evhtp } from "../wire/http1/evhtp.ts";
import { HttpServer, type ListenOptions } from "../wire/http1/server.ts";
import { TooManyScrapes } from "./renderer.ts";

const TYPE = { "Content-Type": "text/plain; charset=utf-8" };
const PLAIN = { "Content-Type": "text/plain" };

/** libevhtp never closes an idle connection. */
const EVHTP_LIMITS: ConnectionLimits = { ...FRONT_LIMITS, headBytes: 65_536, bodyTimeoutS: 0, keepAliveS: 0 };
/** Options of the ports that answer like the real server's library for HTTP. */
export const EVHTP = { frontLimits: EVHTP_LIMITS, style: evhtp };

type ListenerDeps = Pick<ListenOptions, "hostname" | "port" | "reusePort" | "allowedHosts" | "clock" | "epochSeconds">;

/** Starts the listener. Throws like `Bun.listen` if the port is in use. */
export function metricsListener(page: () => Promise<string | Uint8Array>, deps: ListenerDeps): HttpServer {
  const answer = async (context: Context): Promise<Response> => {
    const { request } = context;
    const give = (status: number, headers: Readonly<Record<string, string>>, body: string | Uint8Array) =>
      context.front.answer(request, status, headers, body);
    if (request.method !== "GET") return give(405, PLAIN, '{"error":"Method Not Allowed"}');
    if (!/^[^?]*[^/:]\/metrics\/?(\?|$)/.test(request.url)) return give(200, TYPE, "");
    try {
      return give(200, TYPE, await page());
    } catch (reason) {
      if (reason instanceof TooManyScrapes)
        return give(503, { ...PLAIN, "Retry-After": "1" }, "too many scrapes at once\n");
      logUnexpected("a scrape failed and is answered with 500", reason);
      return give(500, PLAIN, "Internal Server Error");
    }
  };
  const hot: HotRoutes = { of: (method) => (method === "POST" || method === "GET" ? answer : undefined) };
  const app = { ...application({ routes: routes({ "ALL /*": answer }) }), hot };
  const options = { ...deps, tls: undefined, ...EVHTP, warn: () => {} };
  return new HttpServer(app, options);
}

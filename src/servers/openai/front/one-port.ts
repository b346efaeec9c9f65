/** How does a server of one port listen, whatever its routes are? */
import type { AnyElysia } from "elysia";
import { listenUrl } from "../../../base/listen-url.ts";
import { frontLimitsOf } from "../../../config/front-limits.ts";
import type { Parts } from "../../../kernel/parts.ts";
import type { Listeners } from "../../../kernel/role.ts";
import type { HotRoutes } from "../../../wire/http/sink.ts";
import { hotRoutes } from "../../../wire/http1/hot.ts";
import { type Application, HttpServer } from "../../../wire/http1/server.ts";
import { readTls, type TlsFiles } from "../../../wire/tls/certificates.ts";

export interface OnePort extends Pick<Listeners, "url" | "handle" | "turnTo"> {
  readonly server: HttpServer;
  /** Undefined: without. */
  readonly tls: TlsFiles | undefined;
}

/** `routesOf`: the routes over these parts. Throws as `Bun.listen` does when the port is in use. */
export function onePort(parts: Parts, routesOf: (parts: Parts) => AnyElysia): OnePort {
  const { config, place } = parts;
  const tls = config.tls && readTls(config.tls);
  if (tls && "error" in tls) throw new Error(tls.error);
  let mounted = mount(parts, routesOf);
  const server = new HttpServer(
    { fetch: (request) => mounted.fetch(request) },
    {
      hostname: config.host,
      port: config.port,
      tls,
      reusePort: place !== undefined,
      allowedHosts: config.allowedHosts,
      frontLimits: frontLimitsOf(config),
      clock: parts.lastingClock,
      warn: parts.live.warning(parts.log),
      epochSeconds: parts.epochSeconds,
      consumed: parts.backend.consumed,
      catchUp: parts.backend.catchUp,
      hot: { of: (method, target) => mounted.hot.of(method, target) },
    },
  );
  mounted.serveOn(server);
  return {
    server,
    tls,
    url: listenUrl(server, tls),
    handle: (request) => mounted.handle(request),
    async turnTo(next) {
      mounted = mount(next, routesOf);
      mounted.serveOn(server);
    },
  };
}

/** The routes over these parts. */
function mount(parts: Parts, routesOf: (parts: Parts) => AnyElysia) {
  const app = routesOf(parts);
  const serveOn = (server: HttpServer) => {
    app.server = server as unknown as NonNullable<typeof app.server>;
  };
  return { fetch: fetchOf(app, parts.history), handle: app.handle, hot: hotOf(app, parts.history), serveOn };
}

/** What the front answers; what it does not, where nobody notes it. */
function hotOf(app: AnyElysia, history: Parts["history"]): HotRoutes {
  const hot = hotRoutes(app);
  return history === undefined
    ? hot
    : { of: (method, target) => (method === "POST" ? hot.of(method, target) : undefined) };
}

/** Routes that the front does not answer (metrics, truth) are noted here. */
function fetchOf(app: Application, history: Parts["history"]): Application["fetch"] {
  if (history === undefined) return app.fetch;
  return async (request) => {
    const response = await app.fetch(request);
    history.left(request, response.status);
    return response;
  };
}

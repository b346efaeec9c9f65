/** Listens on one port for a server, whatever its routes are. */
import { listenUrl } from "../../../base/listen-url.ts";
import type { Listeners } from "../../../kernel/role.ts";
import { application } from "../../../wire/http/elysia.ts";
import { frontLimitsOf } from "../../../wire/http/front-limits.ts";
import type { Application, RouteTable } from "../../../wire/http/routes.ts";
import type { HotRoutes } from "../../../wire/http/sink.ts";
import { HttpServer } from "../../../wire/http1/server.ts";
import { readTls, type TlsFiles } from "../../../wire/tls/certificates.ts";
import type { OpenAiParts, OpenAiServerConfig } from "../request/openai-config.ts";

export interface OnePort extends Pick<Listeners<OpenAiServerConfig>, "url" | "handle" | "turnTo"> {
  readonly server: HttpServer;
  /** Undefined: without. */
  readonly tls: TlsFiles | undefined;
}

/** `routesOf` makes the routes over these parts. Throws as `Bun.listen` does when the port is in use. */
export function onePort(parts: OpenAiParts, routesOf: (parts: OpenAiParts) => RouteTable): OnePort {
  const { config, place } = parts;
  const tls = config.listen.tls && readTls(config.listen.tls);
  if (tls && "error" in tls) throw new Error(tls.error);
  let mounted = mount(parts, routesOf);
  const server = new HttpServer(mounted, {
    hostname: config.listen.host,
    port: config.listen.port,
    tls,
    reusePort: place !== undefined,
    allowedHosts: config.listen.allowedHosts,
    frontLimits: frontLimitsOf(config),
    clock: parts.lastingClock,
    warn: parts.live.warning(parts.log),
    epochSeconds: parts.epochSeconds,
    consumed: parts.backend.consumed,
    catchUp: parts.backend.catchUp,
  });
  return {
    server,
    tls,
    url: listenUrl(server, tls),
    handle: (request) => mounted.handle(request),
    async turnTo(next) {
      mounted = mount(next, routesOf);
      server.serve(mounted);
    },
  };
}

/** The application over these parts. */
function mount(parts: OpenAiParts, routesOf: (parts: OpenAiParts) => RouteTable) {
  const app = application(routesOf(parts));
  return { ...app, fetch: fetchOf(app, parts.history), hot: hotOf(app.hot, parts.history) };
}

/** With a history only those hot routes whose answers the front reports to it. */
function hotOf(hot: HotRoutes, history: OpenAiParts["history"]): HotRoutes {
  return history === undefined
    ? hot
    : { of: (method, target) => (method === "POST" ? hot.of(method, target) : undefined) };
}

/** Reports to the history, because the front does not see the answers of all routes (metrics, truth). */
function fetchOf(app: Application, history: OpenAiParts["history"]): Application["fetch"] {
  if (history === undefined) return app.fetch;
  return async (request) => {
    const response = await app.fetch(request);
    history.left(request, response.status);
    return response;
  };
}

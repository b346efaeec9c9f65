/** Listens on the port of `--port` with a table of routes. All that a server of HTTP/1 needs. */

import { listenUrl } from "../base/listen-url.ts";
import { application } from "../wire/http/elysia.ts";
import { connectionLimitsOf } from "../wire/http/front-limits.ts";
import type { Application, RouteTable } from "../wire/http/routes.ts";
import type { HotRoutes } from "../wire/http/sink.ts";
import { HttpServer } from "../wire/http1/server.ts";
import { readTls, type TlsFiles } from "../wire/tls/certificates.ts";
import type { Kernel } from "./kernel.ts";
import type { KernelConfig } from "./kernel-config.ts";
import type { Listeners } from "./server.ts";

export interface OnePort<C extends KernelConfig> extends Listeners<C> {
  readonly server: HttpServer;
  readonly idleWork: readonly (() => Promise<void>)[];
  /** Undefined: the port speaks plain HTTP. */
  readonly tls: TlsFiles | undefined;
}

/** `routesOf` makes the routes over a kernel. Throws as `Bun.listen` does when the port is in use. */
export function onePort<C extends KernelConfig>(
  kernel: Kernel<C>,
  routesOf: (kernel: Kernel<C>) => RouteTable,
): OnePort<C> {
  const { config, live, log, backend, time, lifecycle } = kernel;
  const tls = config.listen.tls && readTls(config.listen.tls);
  if (tls && "error" in tls) throw new Error(tls.error);
  let mounted = mount(kernel, routesOf);
  const server = new HttpServer(mounted, {
    hostname: config.listen.host,
    port: config.listen.port,
    tls,
    reusePort: lifecycle.place !== undefined,
    allowedHosts: config.listen.allowedHosts,
    frontLimits: connectionLimitsOf(config),
    clock: time.lastingClock,
    warn: live.warning(log),
    epochSeconds: time.epochSeconds,
    consumed: backend.consumed,
    crowded: backend.crowded,
    catchUp: backend.catchUp,
    firstTokensAtOnce: live.values.pace.get().timing.kind === "none",
  });
  return {
    server,
    tls,
    url: listenUrl(server, tls),
    tritonUrl: null,
    http2Url: null,
    handle: (request) => mounted.handle(request),
    idleWork: [() => mounted.load()],
    async turnTo(next) {
      mounted = mount(next, routesOf);
      server.serve(mounted);
    },
    stop: (cut = false) => server.stop(cut),
  };
}

/** Returns the application of a kernel. If the kernel keeps a history of requests, the answers of routes are noted in it. */
function mount<C extends KernelConfig>(kernel: Kernel<C>, routesOf: (kernel: Kernel<C>) => RouteTable) {
  const app = application(routesOf(kernel));
  const { history } = kernel.truth;
  if (history === undefined) return app;
  const fetch: Application["fetch"] = async (request) => {
    const response = await app.fetch(request);
    history.left(request, response.status);
    return response;
  };
  // The answers of hot routes bypass `fetch`. The front notes those to a POST itself, so other methods go through `fetch`.
  const hot: HotRoutes = { of: (method, target) => (method === "POST" ? app.hot.of(method, target) : undefined) };
  return { ...app, fetch, hot };
}

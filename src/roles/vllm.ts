/** Which routes and listeners has vLLM's server? OpenAI's, Anthropic's and our own paths on one port; Triton's metrics on another. */
import { Elysia } from "elysia";
import type { ApiDialect } from "../answer/dialect.ts";
import { aboutOf } from "../app/engines.ts";
import type { Parts } from "../app/parts.ts";
import { readTls, type TlsFiles } from "../config/certificates.ts";
import { frontLimitsOf } from "../config/front-limits.ts";
import { PortError } from "../config/port-error.ts";
import type { WireConfig } from "../config/types.ts";
import { anthropic } from "../dialects/anthropic/dialect.ts";
import { openai, openaiDescription } from "../dialects/openai/routes.ts";
import { responses } from "../dialects/responses/dialect.ts";
import { Cause } from "../engine/lateness/causes.ts";
import { ADMIN_METHODS, adminRoutes } from "../front/admin-routes.ts";
import { devRoutes } from "../front/dev-routes.ts";
import { type Access, accessLine, type OpenAiOptions } from "../front/front.ts";
import { hotRoutes } from "../http/socket/hot.ts";
import { HttpServer } from "../http/socket/server.ts";
import { ApiOverHttp2, apiKeepAlive } from "../http2/api.ts";
import { Http2Server } from "../http2/server.ts";
import { METRICS_METHODS, metrics } from "../metrics/route.ts";
import { metricsListener } from "../metrics/triton/listener.ts";
import { docsRoutes } from "../openapi/routes.ts";
import { faultLines } from "../truth/fault-lines.ts";
import { Peers } from "../truth/peers.ts";
import { TRUTH_METHODS, truthRoutes } from "../truth/routes.ts";
import type { Listeners, Role } from "./role.ts";

export const vllm: Role = { listen };

async function listen(parts: Parts): Promise<Listeners> {
  const { config, place } = parts;
  const tls = config.tls && readTls(config.tls);
  if (tls && "error" in tls) throw new Error(tls.error);
  let mounted = mount(parts);
  const server = new HttpServer(
    { fetch: (request) => mounted.fetch(request) },
    {
      hostname: config.host,
      port: config.port,
      tls,
      reusePort: place !== undefined,
      frontLimits: frontLimitsOf(config),
      clock: parts.lastingClock,
      warn: parts.live.warning(parts.log),
      epochSeconds: parts.epochSeconds,
      hot: { get: (path) => mounted.hot.get(path) },
    },
  );
  mounted.serveOn(server);
  let { renderer } = parts;
  // A server that is left listening would keep the process alive.
  const closed = async (why: unknown, of: PortError["of"]) => {
    await Promise.all([server.stop(true), http2?.stop(true)]);
    throw new PortError(why, of);
  };
  let http2: Http2Server | null = null;
  try {
    http2 = listenOverHttp2(parts, server, tls);
  } catch (why) {
    await closed(why, "http2");
  }
  const triton = await listenAsTriton().catch((why) => closed(why, "metrics"));
  const url = `${tls ? "https" : "http"}://${server.hostname}:`;
  return {
    url: `${url}${server.port}`,
    tritonUrl: triton && `http://${triton.hostname}:${triton.port}`,
    http2Url: http2 && `${url}${http2.port}`,
    handle: (request) => mounted.handle(request),
    async turnTo(next) {
      mounted = mount(next);
      mounted.serveOn(server);
      renderer = next.renderer;
    },
    stop: (cut = false) => Promise.all([server.stop(cut), http2?.stop(cut), cut ? triton?.stop(true) : undefined]),
  };

  /** Triton's metrics port; null: none is wanted. */
  async function listenAsTriton() {
    if (config.triton.listen === null) return null;
    const { host: hostname, port } = config.triton.listen;
    const { lastingClock: clock, epochSeconds } = parts;
    const reusePort = place !== undefined;
    return metricsListener(() => renderer.page("tritonserver"), { hostname, port, reusePort, clock, epochSeconds });
  }
}

/** null: there is no such port. Throws as `Bun.listen` does. */
function listenOverHttp2({ config, place, lastingClock }: Parts, server: HttpServer, tls: TlsFiles | undefined) {
  if (config.http2Port === undefined) return null;
  return new Http2Server(new ApiOverHttp2(server), {
    hostname: config.host,
    port: config.http2Port,
    tls: tls ?? null,
    reusePort: place !== undefined,
    keepAlive: apiKeepAlive(frontLimitsOf(config).keepAliveS),
    clock: lastingClock,
  });
}

/** The routes over these parts. */
function mount(parts: Parts) {
  const app = routesOf(parts);
  const serveOn = (server: HttpServer) => {
    app.server = server as unknown as NonNullable<typeof app.server>;
  };
  return { fetch: fetchOf(app, parts.history), handle: app.handle, hot: hotRoutes(app), serveOn };
}

/** Routes that the front does not answer (metrics, truth) are noted here. */
function fetchOf(
  app: ReturnType<typeof routesOf>,
  history: Parts["history"],
): (request: Request) => Response | Promise<Response> {
  if (history === undefined) return app.fetch;
  return async (request) => {
    const response = await app.fetch(request);
    history.left(request, response.status);
    return response;
  };
}

function routesOf(parts: Parts) {
  const { config, place, engines, live, admin, recent, marks, gaps, clock } = parts;
  const front = frontOf(parts);
  const dialects: readonly ApiDialect[] = [
    anthropic(config.enablePromptTokensDetails),
    responses(config.wire?.responseStore ?? 0),
  ];
  const app = new Elysia({ strictPath: true })
    .use(metrics(parts.renderer, parts.identity))
    .use(openai(front, dialects));
  if (config.devMode) app.use(devRoutes(front, place ? place.control(engines) : engines));
  const changes = admin && live.changing(admin, (pace) => engines.retime(pace), parts.openLaid);
  if (changes) app.use(adminRoutes(front, changes));
  app.use(
    truthRoutes({
      recent,
      about: aboutOf(config, place, parts.epochUs),
      spare: () => gaps.pieces.pass(),
      worked: (work) => marks.timed(Cause.Truth, work),
      sent: (config.keepBodies && parts.history) || null,
      peers: place ? new Peers(place.pages.files[0]!, place.index, place.workers, clock) : null,
    }),
  );
  return config.disableFastapiDocs ? app : app.use(docsRoutes(front, [openaiDescription, ...dialects]));
}

function frontOf(parts: Parts): OpenAiOptions {
  const { config, live, admin, text, laid, log } = parts;
  const wire = config.wire ?? {};
  const logAccess = (access: Access) => log(accessLine(access));
  return {
    ...text,
    config,
    backend: parts.backend,
    accounting: parts.accounting,
    httpAccounting: parts.httpAccounts,
    ...(parts.truth ? { faultWitness: faultLines(parts.truth, config.truthLog?.wire === true) } : {}),
    ...laid,
    ...(admin ? { fixtures: live.following(laid.fixtures) } : {}),
    adaptersLoaded: (names) => parts.renderer.name(names),
    responseRole: wire.responseRole ?? "assistant",
    trackServerLoad: wire.trackServerLoad === true,
    ...fingerprint(wire),
    get accessLog() {
      return live.logsAccess ? logAccess : null;
    },
    get requestLog() {
      return live.logsRequests ? log : null;
    },
    epochSeconds: parts.epochSeconds,
    newId: parts.newId,
    naturalLength: parts.naturalLength,
    nextSeed: parts.nextSeed,
    alive: parts.alive,
    ...(parts.rules ? { rules: parts.rules } : {}),
    ...(parts.history ? { witness: parts.history } : {}),
    otherRoutes: {
      ...METRICS_METHODS,
      ...TRUTH_METHODS,
      ...(admin ? ADMIN_METHODS : {}),
    },
  };
}

function fingerprint({ fingerprintMode, fingerprintValue }: WireConfig): { readonly fingerprint?: string | null } {
  if (fingerprintMode === "none") return { fingerprint: null };
  return fingerprintMode === "custom" ? { fingerprint: fingerprintValue ?? "" } : {};
}

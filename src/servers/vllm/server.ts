/** Which routes and listeners has vLLM's server? OpenAI's, Anthropic's and our own paths on one port; Triton's metrics on another. */
import { listenUrl } from "../../base/listen-url.ts";
import { frontLimitsOf } from "../../config/front-limits.ts";
import { PortError } from "../../config/start-errors.ts";
import type { Parts } from "../../kernel/parts.ts";
import type { Listeners, Role } from "../../kernel/role.ts";
import { metrics } from "../../metrics/route.ts";
import { metricsListener } from "../../metrics/triton-listener.ts";
import type { RouteTable } from "../../wire/http/routes.ts";
import type { HttpServer } from "../../wire/http1/server.ts";
import type { Http2Server } from "../../wire/http2/server.ts";
import type { TlsFiles } from "../../wire/tls/certificates.ts";
import { docsRoutes } from "../openai/docs/routes.ts";
import { adminRoutes } from "../openai/front/admin-routes.ts";
import { devRoutes } from "../openai/front/dev-routes.ts";
import { frontOptions, truthOf } from "../openai/front/front-options.ts";
import { onePort } from "../openai/front/one-port.ts";
import type { ApiDialect } from "../openai/pipeline/dialect.ts";
import { anthropic } from "./messages/dialect.ts";
import { openai, openaiDescription } from "./openai/routes.ts";
import { responses } from "./responses/dialect.ts";

export const vllm: Role = { listen };

const READING_SCRIPT = new URL("./reading-worker.ts", import.meta.url);

async function listen(parts: Parts): Promise<Listeners> {
  const { config, place } = parts;
  const { server, tls, url, handle, turnTo } = onePort(parts, routesOf);
  let { renderer } = parts;
  // A server that is left listening would keep the process alive.
  const closed = async (why: unknown, of: PortError["of"]) => {
    await Promise.all([server.stop(true), http2?.stop(true)]);
    throw new PortError(why, of);
  };
  let http2: Http2Server | null = null;
  http2 = await listenOverHttp2(parts, server, tls).catch((why) => closed(why, "http2"));
  const triton = await listenAsTriton().catch((why) => closed(why, "metrics"));
  return {
    url,
    tritonUrl: triton && listenUrl(triton),
    http2Url: http2 && listenUrl({ hostname: server.hostname, port: http2.port }, tls),
    handle,
    async turnTo(next) {
      await turnTo(next);
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
    const around = { hostname, port, reusePort, allowedHosts: config.allowedHosts, clock, epochSeconds };
    return metricsListener(() => renderer.page("tritonserver"), around);
  }
}

/** null: there is no such port. Loaded where there is one. Rejects as `Bun.listen` throws. */
async function listenOverHttp2(
  { config, place, lastingClock, backend }: Parts,
  server: HttpServer,
  tls: TlsFiles | undefined,
) {
  if (config.http2Port === undefined) return null;
  const [{ ApiOverHttp2, apiKeepAlive }, { Http2Server }] = await Promise.all([
    import("../../wire/http2/api.ts"),
    import("../../wire/http2/server.ts"),
  ]);
  return new Http2Server(new ApiOverHttp2(server), {
    hostname: config.host,
    port: config.http2Port,
    tls: tls ?? null,
    reusePort: place !== undefined,
    keepAlive: apiKeepAlive(frontLimitsOf(config).keepAliveS),
    clock: lastingClock,
    catchUp: backend.catchUp,
  });
}

function routesOf(parts: Parts): RouteTable {
  const { config, place, engines, live, admin } = parts;
  const front = frontOptions(parts);
  const dialects: readonly ApiDialect[] = [
    anthropic(config.enablePromptTokensDetails),
    responses(config.wire?.responseStore ?? 0),
  ];
  const table = openai(front, dialects, READING_SCRIPT);
  const changes = admin && live.changing(admin, (pace) => engines.retime(pace), parts.openLaid);
  return {
    ...table,
    routes: [
      ...metrics(parts.renderer, parts.identity),
      ...table.routes,
      ...(config.devMode ? devRoutes(front, place ? place.control(engines) : engines) : []),
      ...(changes ? adminRoutes(front, changes) : []),
      ...truthOf(parts),
      ...(config.disableFastapiDocs ? [] : docsRoutes(front, [openaiDescription, ...dialects])),
    ],
  };
}

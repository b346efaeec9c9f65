/** Which routes and listeners has vLLM's server? OpenAI's, Anthropic's and our own paths on one port; Triton's metrics on another. */
import { listenUrl } from "../../base/listen-url.ts";
import { PortError } from "../../base/start-errors.ts";
import type { Listeners, Role } from "../../kernel/role.ts";
import { metrics } from "../../metrics/route.ts";
import { metricsListener } from "../../metrics/triton-listener.ts";
import { frontLimitsOf } from "../../wire/http/front-limits.ts";
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
import type { OpenAiParts, OpenAiServerConfig } from "../openai/request/openai-config.ts";
import { anthropic } from "./messages/dialect.ts";
import { openai, openaiDescription } from "./openai/routes.ts";
import { responses } from "./responses/dialect.ts";

export const vllm: Role<OpenAiServerConfig> = { listen };

const READING_SCRIPT = new URL("./reading-worker.ts", import.meta.url);

async function listen(parts: OpenAiParts): Promise<Listeners<OpenAiServerConfig>> {
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
    if (config.metrics.triton.listen === null) return null;
    const { host: hostname, port } = config.metrics.triton.listen;
    const { lastingClock: clock, epochSeconds } = parts;
    const reusePort = place !== undefined;
    const around = { hostname, port, reusePort, allowedHosts: config.listen.allowedHosts, clock, epochSeconds };
    return metricsListener(() => renderer.page("tritonserver"), around);
  }
}

/** null: there is no such port. Loaded where there is one. Rejects as `Bun.listen` throws. */
async function listenOverHttp2(
  { config, place, lastingClock, backend }: OpenAiParts,
  server: HttpServer,
  tls: TlsFiles | undefined,
) {
  if (config.listen.http2Port === undefined) return null;
  const [{ ApiOverHttp2, apiKeepAlive }, { Http2Server }] = await Promise.all([
    import("../../wire/http2/api.ts"),
    import("../../wire/http2/server.ts"),
  ]);
  return new Http2Server(new ApiOverHttp2(server), {
    hostname: config.listen.host,
    port: config.listen.http2Port,
    tls: tls ?? null,
    reusePort: place !== undefined,
    keepAlive: apiKeepAlive(frontLimitsOf(config).keepAliveS),
    clock: lastingClock,
    catchUp: backend.catchUp,
    consumed: backend.consumed,
  });
}

function routesOf(parts: OpenAiParts): RouteTable {
  const { config, place, engines, live, admin } = parts;
  const front = frontOptions(parts);
  const dialects: readonly ApiDialect[] = [
    anthropic(config.openai.answers.enablePromptTokensDetails),
    responses(config.openai.requests.responseStore ?? 0),
  ];
  const table = openai(front, dialects, READING_SCRIPT);
  const changes = admin && live.changing(admin, (pace) => engines.retime(pace), parts.openLaid);
  return {
    ...table,
    routes: [
      ...metrics(parts.renderer, parts.identity),
      ...table.routes,
      ...(config.openai.front.devMode ? devRoutes(front, place ? place.control(engines) : engines) : []),
      ...(changes ? adminRoutes(front, changes) : []),
      ...truthOf(parts),
      ...(config.openai.front.disableFastapiDocs ? [] : docsRoutes(front, [openaiDescription, ...dialects])),
    ],
  };
}

/**
 * Stands in for vLLM's server. OpenAI's, Anthropic's and our own routes share one port. HTTP/2 and Triton's metrics can have
 * other ports.
 */

import { listenUrl } from "../../base/listen-url.ts";
import { PortError } from "../../base/start-errors.ts";
import { onePort } from "../../kernel/one-port.ts";
import type { Listeners, Server } from "../../kernel/server.ts";
import { metricsListener } from "../../metrics/triton-listener.ts";
import { connectionLimitsOf } from "../../wire/http/front-limits.ts";
import type { RouteTable } from "../../wire/http/routes.ts";
import type { HttpServer } from "../../wire/http1/server.ts";
import type { Http2Server } from "../../wire/http2/server.ts";
import type { TlsFiles } from "../../wire/tls/certificates.ts";
import { docsRoutes } from "../openai/docs/routes.ts";
import { devRoutes } from "../openai/front/dev-routes.ts";
import { Http } from "../openai/front/http.ts";
import { ourRoutes } from "../openai/front/our-routes.ts";
import { servedBy } from "../openai/front/served.ts";
import type { ApiDialect } from "../openai/pipeline/dialect.ts";
import type { OpenAiKernel, OpenAiServerConfig } from "../openai/request/openai-config.ts";
import { anthropic } from "./messages/dialect.ts";
import { openai, openaiDescription } from "./openai/routes.ts";
import { responses } from "./responses/dialect.ts";

export const vllm: Server<OpenAiServerConfig> = { options: ["openai"], start };

const READING_SCRIPT = new URL("./reading-worker.ts", import.meta.url);

async function start(kernel: OpenAiKernel): Promise<Listeners<OpenAiServerConfig>> {
  const { config, time, lifecycle } = kernel;
  const port = onePort(kernel, routesOf);
  const { server, tls } = port;
  let { renderer } = kernel.metrics;
  // A server that still listens would keep the process alive.
  const closeAndThrow = async (why: unknown, of: PortError["of"]) => {
    await Promise.all([server.stop(true), http2?.stop(true)]);
    throw new PortError(why, of);
  };
  let http2: Http2Server | null = null;
  http2 = await listenOverHttp2(kernel, server, tls).catch((why) => closeAndThrow(why, "http2"));
  const triton = await listenAsTriton().catch((why) => closeAndThrow(why, "metrics"));
  return {
    ...port,
    idleWork: [() => renderer.prepare("role"), ...port.idleWork],
    tritonUrl: triton && listenUrl(triton),
    http2Url: http2 && listenUrl({ hostname: server.hostname, port: http2.port }, tls),
    async turnTo(next) {
      await port.turnTo(next);
      renderer = next.metrics.renderer;
    },
    stop: (cut = false) => Promise.all([server.stop(cut), http2?.stop(cut), cut ? triton?.stop(true) : undefined]),
  };

  /** Opens the port of Triton's metrics. Returns null if none is configured. */
  async function listenAsTriton() {
    if (config.metrics.triton.listen === null) return null;
    const { host: hostname, port } = config.metrics.triton.listen;
    const { lastingClock: clock, epochSeconds } = time;
    const reusePort = lifecycle.place !== undefined;
    const listenerOptions = {
      hostname,
      port,
      reusePort,
      allowedHosts: config.listen.allowedHosts,
      clock,
      epochSeconds,
    };
    return metricsListener(() => renderer.page("tritonserver"), listenerOptions);
  }
}

/** Opens the HTTP/2 port, whose code is loaded only then. Returns null if none is configured. Rejects if it cannot listen. */
async function listenOverHttp2(
  { config, time, backend, lifecycle }: OpenAiKernel,
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
    reusePort: lifecycle.place !== undefined,
    keepAlive: apiKeepAlive(connectionLimitsOf(config).keepAliveS),
    clock: time.lastingClock,
    catchUp: backend.catchUp,
    consumed: backend.consumed,
    crowded: backend.crowded,
  });
}

function routesOf(kernel: OpenAiKernel): RouteTable {
  const { config, engines, lifecycle } = kernel;
  const { front, answers, requests } = config.openai;
  const dialects: readonly ApiDialect[] = [
    anthropic(answers.enablePromptTokensDetails),
    responses(requests.responseStore ?? 0),
  ];
  const table = openai(kernel, dialects, READING_SCRIPT);
  const control = lifecycle.place ? lifecycle.place.control(engines.fleet) : engines.fleet;
  return {
    ...table,
    routes: [
      ...ourRoutes(kernel),
      ...table.routes,
      ...(front.devMode ? devRoutes(kernel, control) : []),
      ...(front.disableFastapiDocs
        ? []
        : docsRoutes(new Http(kernel, {}), kernel.backend, { ...servedBy(config), "/metrics": ["GET"] }, [
            openaiDescription,
            ...dialects,
          ])),
    ],
  };
}

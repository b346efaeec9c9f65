/** Which listeners has a Triton server? HTTP with its routes, and metrics on a port of their own. */
import { version } from "../../package.json";
import type { Parts } from "../app/parts.ts";
import { pause } from "../app/parts.ts";
import { TritonPortError } from "../config/triton-metrics.ts";
import type { TritonServerConfig } from "../config/triton-server.ts";
import { evhtp } from "../http/socket/evhtp.ts";
import { HttpServer, type ListenOptions } from "../http/socket/server.ts";
import { EVHTP_LIMITS, metricsListener } from "../metrics/triton/listener.ts";
import { tritonApp } from "../triton/http/app.ts";
import { SharedMemory } from "../triton/http/shared-memory.ts";
import { TraceSettings } from "../triton/http/trace.ts";
import { metricsPage } from "../triton/metrics/page.ts";
import { Polling } from "../triton/metrics/polled.ts";
import { TritonServer } from "../triton/server/server.ts";
import type { Listeners, Role } from "./role.ts";

export const triton: Role = { listen };

/** Models that are to be there from the start are not. */
class UnusableModels extends Error {
  override readonly name = "UnusableModels";
}

const LOOK_US = 10_000;

async function listen(parts: Parts): Promise<Listeners> {
  const config = parts.config.tritonServer!;
  const server = new TritonServer({
    config,
    targets: parts.config.triton.quantiles,
    clock: parts.clock,
    epochMs: () => parts.epochSeconds() * 1000,
    random: () => parts.nextSeed() / 2 ** 32,
    log: parts.log,
  });
  await loaded(server, config);
  const around = {
    server,
    config,
    memory: new SharedMemory(),
    traces: new TraceSettings(),
    logging: { now: config.log },
  };
  const { app, hot } = tritonApp(around);
  const http = config.http && new HttpServer(app, listenOptions(parts, config.http, hot));
  if (http) app.server = http as unknown as NonNullable<typeof app.server>;
  const metrics = await metricsServer(parts, server, config).catch(async (why) => {
    // A server that is left listening would keep the process alive.
    await http?.stop(true);
    throw new TritonPortError(why);
  });
  const url = http ? `http://${http.hostname}:${http.port}` : "";
  const tritonUrl = metrics && `http://${metrics.hostname}:${metrics.port}`;
  return {
    url,
    tritonUrl,
    banner: (startedMs) => bannerOf(config, server, url, tritonUrl, startedMs),
    handle: (request) => app.handle(request),
    turnTo: () => Promise.reject(new Error("a Triton server does not begin anew behind its listeners")),
    async drain(untilUs) {
      while (server.live > 0 && parts.clock.now() < untilUs) await pause(parts.clock, LOOK_US);
    },
    async stop(cut = false) {
      if (!cut) http?.turnAway();
      else await Promise.all([http?.stop(true), metrics?.stop(true)]);
    },
  };
}

async function loaded(server: TritonServer, config: TritonServerConfig): Promise<void> {
  const failures = await server.start().catch((error: Error) => {
    throw new UnusableModels(`--model-repository: ${error.message}`);
  });
  if (failures.length === 0 || !config.exitOnError) return;
  const [first = ""] = failures;
  const more = failures.length > 1 ? ` (and ${failures.length - 1} more)` : "";
  throw new UnusableModels(
    `creating server: Internal - failed to load all models: ${first.trim().split("\n")[0]}${more}`,
  );
}

function listenOptions(parts: Parts, at: { host: string; port: number }, hot: ListenOptions["hot"]): ListenOptions {
  return {
    hostname: at.host,
    port: at.port,
    tls: undefined,
    reusePort: false,
    frontLimits: EVHTP_LIMITS,
    clock: parts.clock,
    warn: () => {},
    epochSeconds: parts.epochSeconds,
    style: evhtp,
    ...(hot ? { hot } : {}),
  };
}

async function metricsServer(
  parts: Parts,
  server: TritonServer,
  config: TritonServerConfig,
): Promise<HttpServer | null> {
  const { triton: settings } = parts.config;
  if (settings.listen === null) return null;
  const { clock } = parts;
  const counts = () => server.cache?.counts ?? null;
  const polling = new Polling(settings.intervalMs, clock.now(), counts());
  const page = () => {
    const nowUs = clock.now();
    const polled = polling.take(nowUs, settings.cpu, counts());
    return metricsPage(server, polled, { metrics: settings, namespacing: config.namespacing, nowUs });
  };
  const { host: hostname, port } = settings.listen;
  return metricsListener(page, { hostname, port, reusePort: false, clock, epochSeconds: parts.epochSeconds });
}

function bannerOf(
  { version: stoodFor, repositories }: TritonServerConfig,
  server: TritonServer,
  url: string,
  metrics: string | null,
  startedMs: number,
): string {
  const models = server.statistics(null, -1).map(({ name, version: of }) => `${name}:${of}`);
  const [first] = server.statistics(null, -1);
  return [
    `understudy ${version} stands in for Triton ${server.facts.version} (--triton-version ${stoodFor})`,
    `  repository  ${repositories.join(", ")}`,
    `  models      ${models.length > 0 ? models.join(", ") : "none"}`,
    `  listening   ${url || "nowhere"} after ${Math.round(startedMs)} ms`,
    ...(metrics === null ? [] : [`  metrics     ${metrics}/metrics`]),
    ...(url === "" || first === undefined ? [] : [`  try         curl ${url}/v2/models/${first.name}`]),
  ].join("\n");
}

/** Which routes and listeners has vLLM's server? OpenAI's, Anthropic's and our own paths on one port; Triton's metrics on another. */
import { Elysia } from "elysia";
import type { ApiDialect } from "../answer/dialect.ts";
import type { Parts } from "../app/parts.ts";
import { TritonPortError } from "../config/triton-metrics.ts";
import { anthropic } from "../dialects/anthropic/dialect.ts";
import { openai, openaiDescription } from "../dialects/openai/routes.ts";
import { responses } from "../dialects/responses/dialect.ts";
import { adminRoutes } from "../front/admin-routes.ts";
import { devRoutes } from "../front/dev-routes.ts";
import { metrics } from "../metrics/route.ts";
import { metricsListener } from "../metrics/triton/listener.ts";
import { docsRoutes } from "../openapi/routes.ts";
import { frontOptions, truthOf } from "./front-options.ts";
import { onePort } from "./one-port.ts";
import type { Listeners, Role } from "./role.ts";

export const vllm: Role = { listen };

async function listen(parts: Parts): Promise<Listeners> {
  const { config, place } = parts;
  const { server, url, handle, turnTo } = onePort(parts, routesOf);
  let { renderer } = parts;
  const triton = await listenAsTriton().catch(async (why) => {
    // A server that is left listening would keep the process alive.
    await server.stop(true);
    throw new TritonPortError(why);
  });
  return {
    url,
    tritonUrl: triton && `http://${triton.hostname}:${triton.port}`,
    handle,
    async turnTo(next) {
      await turnTo(next);
      renderer = next.renderer;
    },
    stop: (cut = false) => Promise.all([server.stop(cut), cut ? triton?.stop(true) : undefined]),
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

function routesOf(parts: Parts) {
  const { config, place, engines, live, admin } = parts;
  const front = frontOptions(parts);
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
  app.use(truthOf(parts));
  return config.disableFastapiDocs ? app : app.use(docsRoutes(front, [openaiDescription, ...dialects]));
}

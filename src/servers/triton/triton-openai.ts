/** Opens the port of Triton's OpenAI front end, which behaves like uvicorn. Loaded only with `--openai`. */

import { PortError } from "../../base/start-errors.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import type { OpenAiKernel } from "../openai/request/openai-config.ts";
import type { ServerAround } from "./inference/around.ts";
import { openAiFrontEnd } from "./openai/app.ts";

/** Rejects with `PortError` if the port is in use. */
export function openAiServer(
  { config: { listen }, backend, time, chance, text }: OpenAiKernel,
  { server, config, waiting, bodies, turns }: Pick<ServerAround, "server" | "config" | "waiting" | "bodies" | "turns">,
  metrics: () => Promise<string>,
): HttpServer {
  const {
    openai,
    overHttp: { maxInputBytes, maxBodyBytes },
  } = config;
  const { renderChat, vocabulary } = text.model;
  const { clock, epochSeconds } = time;
  const { newId } = chance;
  const app = openAiFrontEnd({
    ...openai!,
    server,
    waiting,
    bodies,
    turns,
    renderChat,
    vocabulary,
    maxInputBytes: maxInputBytes ?? maxBodyBytes,
    metrics,
    epochSeconds,
    newId,
  });
  try {
    return new HttpServer(app, {
      hostname: openai!.host,
      port: openai!.port,
      tls: undefined,
      reusePort: false,
      allowedHosts: listen.allowedHosts,
      frontLimits: FRONT_LIMITS,
      clock,
      catchUp: backend.catchUp,
      warn: () => {},
      epochSeconds,
    });
  } catch (why) {
    throw new PortError(why);
  }
}

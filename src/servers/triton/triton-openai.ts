/** How does Triton's OpenAI front end listen? As uvicorn does, beside the server that it asks. Loaded where it is wanted. */

import { PortError } from "../../base/start-errors.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import type { OpenAiParts } from "../openai/request/openai-config.ts";
import type { ServerAround } from "./inference/around.ts";
import { openAiFrontEnd } from "./openai/app.ts";

/** Rejects with `PortError` where the port is in use. */
export function openAiServer(
  parts: OpenAiParts,
  { server, config, waiting, bodies, turns }: Pick<ServerAround, "server" | "config" | "waiting" | "bodies" | "turns">,
  metrics: () => Promise<string>,
): HttpServer {
  const {
    openai,
    overHttp: { maxInputBytes, maxBodyBytes },
  } = config;
  const { renderChat, vocabulary } = parts.text;
  const { epochSeconds, newId } = parts;
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
      allowedHosts: parts.config.listen.allowedHosts,
      frontLimits: FRONT_LIMITS,
      clock: parts.clock,
      catchUp: parts.backend.catchUp,
      warn: () => {},
      epochSeconds,
    });
  } catch (why) {
    throw new PortError(why);
  }
}

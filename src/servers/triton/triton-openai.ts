/** How does Triton's OpenAI front end listen? As uvicorn does, beside the server that it asks. Loaded where it is wanted. */

import { FRONT_LIMITS } from "../../config/front-limits.ts";
import { PortError } from "../../config/start-errors.ts";
import type { Parts } from "../../kernel/parts.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import type { ServerAround } from "./inference/around.ts";
import { openAiFrontEnd } from "./openai/app.ts";

/** Rejects with `PortError` where the port is in use. */
export function openAiServer(
  parts: Parts,
  { server, waiting, coming, turns }: Pick<ServerAround, "server" | "waiting" | "coming" | "turns">,
  metrics: () => Promise<string>,
): HttpServer {
  const { openai, maxInputBytes, maxBodyBytes } = parts.config.tritonServer!;
  const { renderChat, vocabulary } = parts.text;
  const { epochSeconds, newId } = parts;
  const app = openAiFrontEnd({
    ...openai!,
    server,
    waiting,
    coming,
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
      allowedHosts: parts.config.allowedHosts,
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

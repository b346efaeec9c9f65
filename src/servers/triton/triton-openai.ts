/** Opens the port of Triton's OpenAI front end, which behaves like uvicorn. Loaded only with `--openai`. */

import { PortError } from "../../base/start-errors.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import { HttpServer, type ListenOptions } from "../../wire/http1/server.ts";
import type { OpenAiKernel } from "../openai/request/openai-config.ts";
import type { ServerAround } from "./inference/around.ts";
import { openAiFrontEnd } from "./openai/app.ts";

/** Rejects with `PortError` if the port is in use. */
export function openAiServer(
  { time: { epochSeconds }, chance: { newId }, text }: OpenAiKernel,
  { server, config, waiting, bodies, turns }: Pick<ServerAround, "server" | "config" | "waiting" | "bodies" | "turns">,
  metrics: () => Promise<string>,
  options: Omit<ListenOptions, "frontLimits">,
): HttpServer {
  const { maxInputBytes, maxBodyBytes } = config.overHttp;
  const { renderChat, vocabulary } = text.model;
  const app = openAiFrontEnd({
    ...config.openai!,
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
    return new HttpServer(app, { ...options, frontLimits: FRONT_LIMITS });
  } catch (why) {
    throw new PortError(why);
  }
}

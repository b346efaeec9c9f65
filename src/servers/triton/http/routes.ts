/**
 * Maps paths to handlers. Patterns match the whole path, in the real server's order. Each route has its answer to other methods
 * and its `--http-restricted-api`. Source: `HTTPAPIServer::Handle` in `http_server.cc` (2026).
 */

import { orElse } from "../../../base/maybe-promise.ts";
import type { ServerAround } from "../inference/around.ts";
import { errorText, type HandlerAnswer, type HttpCall, jsonAnswer, jsonError, plain, plainError } from "./call.ts";
import { generate, generateStream } from "./generate.ts";
import { infer } from "./infer.ts";
import { logging } from "./logging.ts";
import {
  health,
  modelConfig,
  modelMetadata,
  modelReady,
  modelStatistics,
  repositoryControl,
  repositoryIndex,
  serverMetadata,
} from "./models.ts";
import { cudaMemory, systemMemory } from "./shared-memory.ts";
import { traceSettings } from "./trace.ts";

export interface Route {
  readonly pattern: RegExp;
  /** Name of the API in `--http-restricted-api`. */
  readonly api: string;
  readonly methods: readonly string[];
  /** True if errors before the handler are plain text instead of JSON. */
  readonly plain: boolean;
  readonly handle: (call: HttpCall) => HandlerAnswer | Promise<HandlerAnswer>;
}

const MODEL = "/v2/models/([^/]+)(?:/versions/([0-9]+))?";
const route = (
  pattern: string,
  api: string,
  methods: readonly string[],
  handle: Route["handle"],
  isPlain = false,
): Route => ({ pattern: new RegExp(`^${pattern}$`), api, methods, plain: isPlain, handle });

const [GET, POST, BOTH] = [["GET"], ["POST"], ["GET", "POST"]];
const memory = (kind: string) => `/v2/${kind}sharedmemory(?:/region/([^/]+))?`;

export const ROUTES: readonly Route[] = [
  route(`${MODEL}/infer`, "inference", POST, infer, true),
  route(`${MODEL}/generate`, "inference", POST, generate),
  route(`${MODEL}/generate_stream`, "inference", POST, generateStream),
  route("/v2/models/stats", "statistics", GET, modelStatistics),
  route("/v2/logging", "logging", BOTH, logging),
  route(`${MODEL}/ready`, "health", GET, modelReady, true),
  route(`${MODEL}/config`, "model-config", GET, modelConfig),
  route(`${MODEL}/stats`, "statistics", GET, modelStatistics),
  route("/v2/models/([^/]+)/trace/setting", "trace", BOTH, traceSettings),
  route(MODEL, "metadata", GET, modelMetadata),
  route("/v2", "metadata", GET, serverMetadata),
  route("/v2/health/(live|ready)", "health", GET, health, true),
  route(`${memory("system")}/(status)`, "shared-memory", GET, systemMemory),
  route(`${memory("system")}/(register|unregister)`, "shared-memory", POST, systemMemory),
  route(`${memory("cuda")}/(status)`, "shared-memory", GET, cudaMemory),
  route(`${memory("cuda")}/(register|unregister)`, "shared-memory", POST, cudaMemory),
  route("/v2/repository(?:/([^/]+))?/index", "model-repository", POST, repositoryIndex),
  route("/v2/repository(?:/([^/]+))?/(models)/([^/]+)/(load|unload)", "model-repository", POST, repositoryControl),
  route("/v2/trace/setting", "trace", BOTH, traceSettings),
];

export const RESTRICTABLE = [...new Set(ROUTES.map(({ api }) => api))];

export interface RouteMatch {
  readonly route: Route;
  readonly found: readonly (string | undefined)[];
}

/** Finds the route of a path without its query, or null. */
export function match(path: string): RouteMatch | null {
  for (const one of ROUTES) {
    const found = one.pattern.exec(path);
    if (found !== null) return { route: one, found: found.slice(1) };
  }
  return null;
}

export const NOT_FOUND = plain(errorText("Not Found"), 404);

/** Runs the route's handler. Rejects only if the client has left. */
export function respondTo(
  { route: { api, methods, plain: isPlain, handle } }: RouteMatch,
  call: HttpCall,
): HandlerAnswer | Promise<HandlerAnswer> {
  const restricted = restriction(call.around, api, call);
  if (restricted !== null) return restricted;
  if (!methods.includes(call.method)) return (isPlain ? plain : jsonAnswer)(errorText("Method Not Allowed"), 405);
  const failed = isPlain ? plainError : jsonError;
  try {
    return orElse(handle(call), failed);
  } catch (error) {
    return failed(error);
  }
}

function restriction({ config }: ServerAround, api: string, call: HttpCall): HandlerAnswer | null {
  if (config.overHttp.restricted.length === 0) return null;
  const own = config.overHttp.restricted.find(({ apis }) => apis.includes(api));
  if (own === undefined || call.header(own.header.toLowerCase()) === own.value) return null;
  return plain(errorText(`This API is restricted, expecting header '${own.header}'`), 403);
}

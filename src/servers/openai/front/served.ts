/** Tables of the served paths and their methods. Separate from the routes, because counting requests needs only these tables. */

import type { OpenAiServerConfig } from "../request/openai-config.ts";

type MethodsByPath = Readonly<Record<string, readonly string[]>>;

/** The release of vLLM that this server imitates. */
export const VLLM_VERSION = "0.33.0";

/** Routes of vLLM's scale-out mode. They always answer with an error, as in vLLM without --enable-scale-out. */
export const SCALE_OUT = [
  "/v1/chat/completions/render",
  "/v1/completions/render",
  "/v1/messages/render",
  "/v1/responses/render",
  "/v1/chat/completions/derender",
  "/v1/completions/derender",
  "/inference/v1/generate",
] as const;
/** Methods of the scale-out routes, which the OpenAPI document does not list. */
const SCALE_OUT_METHODS: MethodsByPath = Object.fromEntries(SCALE_OUT.map((path) => [path, ["POST"]]));

/** Paths that every configuration serves. */
export const METHODS: MethodsByPath = {
  "/v1/chat/completions": ["POST"],
  "/v1/chat/completions/batch": ["POST"],
  "/v1/completions": ["POST"],
  "/invocations": ["POST"],
  "/v1/responses": ["POST"],
  "/v1/responses/{response_id}": ["GET"],
  "/v1/responses/{response_id}/cancel": ["POST"],
  "/v1/messages": ["POST"],
  "/v1/messages/count_tokens": ["POST"],
  "/tokenize": ["POST"],
  "/detokenize": ["POST"],
  "/v1/models": ["GET"],
  "/health": ["GET"],
  "/ping": ["GET", "POST"],
  "/version": ["GET"],
  "/load": ["GET"],
  "/kv_event_sources": ["GET"],
};

/** Paths that are served with VLLM_SERVER_DEV_MODE=1. */
export const DEV_METHODS: MethodsByPath = {
  "/pause": ["POST"],
  "/resume": ["POST"],
  "/is_paused": ["GET"],
  "/reset_prefix_cache": ["POST"],
  "/reset_mm_cache": ["POST"],
  "/reset_encoder_cache": ["POST"],
  "/sleep": ["POST"],
  "/wake_up": ["POST"],
  "/is_sleeping": ["GET"],
  "/server_info": ["GET"],
};

/** Paths that are served unless --disable-fastapi-docs is given. */
export const DOCS_METHODS: MethodsByPath = {
  "/openapi.json": ["GET"],
  "/docs": ["GET"],
  "/redoc": ["GET"],
};

/** Paths that are served with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. */
export const LORA_METHODS: MethodsByPath = {
  "/v1/load_lora_adapter": ["POST"],
  "/v1/unload_lora_adapter": ["POST"],
};

/** Path that is served with `--compat`. vLLM has no such path. */
const READY_METHODS: MethodsByPath = { "/health/ready": ["GET"] };

/** Path that is served with `--embedding-dimensions`. vLLM has no such path for a model that generates text. */
const EMBEDDING_METHODS: MethodsByPath = { "/v1/embeddings": ["POST"] };

/** Path that is served with `--enable-tokenizer-info-endpoint`. */
const TOKENIZER_INFO_METHODS: MethodsByPath = { "/tokenizer_info": ["GET"] };

type RouteConfig = Pick<OpenAiServerConfig, "models" | "openai">;

/** Returns the paths of vLLM's API that a server of this configuration serves, with their methods. */
export function servedBy(config: RouteConfig): MethodsByPath {
  return {
    ...METHODS,
    ...(config.openai.front.readiness ? READY_METHODS : {}),
    ...(config.openai.requests.embeddingDimensions ? EMBEDDING_METHODS : {}),
    ...(config.openai.front.tokenizerInfo ? TOKENIZER_INFO_METHODS : {}),
    ...(config.openai.front.disableFastapiDocs ? {} : DOCS_METHODS),
    ...(config.models.runtimeLora ? LORA_METHODS : {}),
    ...(config.openai.front.devMode ? DEV_METHODS : {}),
  };
}

/** Returns the paths whose HTTP requests are counted by path: the served paths and those of the scale-out mode. */
export const countedBy = (config: Parameters<typeof servedBy>[0]): MethodsByPath => ({
  ...servedBy(config),
  ...SCALE_OUT_METHODS,
});

/** Returns the route of a path: the id of a response becomes the name of the parameter. */
export function routeOf(path: string): string {
  return path.startsWith(RESPONSES) ? path.replace(/^(\/v1\/responses\/)[^/]+/, "$1{response_id}") : path;
}

const RESPONSES = "/v1/responses/";

/** Which paths are served, and with which methods? Apart from the routes, for those who only count. */

import type { OpenAiServerConfig } from "../request/openai-config.ts";

type Served = Readonly<Record<string, readonly string[]>>;

/** The release that is stood in for. */
export const VLLM_VERSION = "0.33.0";

/** Routes of servers that share out the work; this one has them switched off, as vLLM without --enable-scale-out. */
export const SCALE_OUT = [
  "/v1/chat/completions/render",
  "/v1/completions/render",
  "/v1/messages/render",
  "/v1/responses/render",
  "/v1/chat/completions/derender",
  "/v1/completions/derender",
  "/inference/v1/generate",
] as const;
/** They stand in no document. */
const SCALE_OUT_METHODS: Served = Object.fromEntries(SCALE_OUT.map((path) => [path, ["POST"]]));

export const METHODS: Served = {
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

/** With VLLM_SERVER_DEV_MODE=1. */
export const DEV_METHODS: Served = {
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

/** Without --disable-fastapi-docs. */
export const DOCS_METHODS: Served = {
  "/openapi.json": ["GET"],
  "/docs": ["GET"],
  "/redoc": ["GET"],
};

/** With VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. */
export const LORA_METHODS: Served = {
  "/v1/load_lora_adapter": ["POST"],
  "/v1/unload_lora_adapter": ["POST"],
};

/** With `--compat`: vLLM has no such path. */
const READY_METHODS: Served = { "/health/ready": ["GET"] };

/** With `--embedding-dimensions`: vLLM has no such path for a model that writes. */
const EMBEDDING_METHODS: Served = { "/v1/embeddings": ["POST"] };

/** With `--enable-tokenizer-info-endpoint`. */
const TOKENIZER_INFO_METHODS: Served = { "/tokenizer_info": ["GET"] };

type Serving = Pick<OpenAiServerConfig, "models" | "openai">;

/** All that a server of this configuration serves of this dialect. */
export function servedBy(config: Serving): Served {
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

/** Those whose HTTP requests have a handler of their own: what is switched off has one too. */
export const countedBy = (config: Parameters<typeof servedBy>[0]): Served => ({
  ...servedBy(config),
  ...SCALE_OUT_METHODS,
});

/** The route of a path: with its parameters by name. */
export function routeOf(path: string): string {
  return path.startsWith(RESPONSES) ? path.replace(/^(\/v1\/responses\/)[^/]+/, "$1{response_id}") : path;
}

const RESPONSES = "/v1/responses/";

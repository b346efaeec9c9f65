/** Which paths are served, and with which methods? Apart from the routes, for those who only count. */

type Served = Readonly<Record<string, readonly string[]>>;

export const METHODS: Served = {
  "/v1/chat/completions": ["POST"],
  "/v1/completions": ["POST"],
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
};

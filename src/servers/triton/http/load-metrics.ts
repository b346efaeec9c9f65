/**
 * Reports the use of TensorRT-LLM's KV cache in a response header of `generate`, if the request asks for it. Source:
 * `orca_http.cc` (2026).
 */

import { doubleText } from "../../../base/double-text.ts";
import type { KvCache } from "../inference/around.ts";

/**
 * Returns the header. `format`: value of the request header `endpoint-load-metrics-format`. Returns nothing for other formats
 * or without a KV cache.
 */
export function loadMetrics(format: string | null, cache: KvCache | null): Readonly<Record<string, string>> {
  if (cache === null || cache.blocks === 0 || (format !== "text" && format !== "json")) return {};
  const used = cache.usedBlocks / cache.blocks;
  const tokens = cache.blocks * cache.tokensPerBlock;
  const value =
    format === "text"
      ? `TEXT named_metrics.kv_cache_utilization=${used.toFixed(6)}, named_metrics.max_token_capacity=${tokens}`
      : `JSON {"named_metrics":{"kv_cache_utilization":${doubleText(used)},"max_token_capacity":${tokens}}}`;
  return { "endpoint-load-metrics": value };
}

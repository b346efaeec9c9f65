/** How full is TensorRT-LLM's KV cache, as an answer of `generate` says where it is asked? `orca_http.cc` (2026). */

import type { KvCache } from "../inference/around.ts";
import { doubleText } from "../tensors/double-text.ts";

/** `format`: of the header `endpoint-load-metrics-format`; nothing for others, and where there is no such cache. */
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

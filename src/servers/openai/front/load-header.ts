/** How loaded is the engine, as the answer to a request that asks for it says? `endpoint-load-metrics-format`, of whole answers. */

import type { Backend } from "../../../kernel/backend.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { reprFloat } from "../../pydantic/repr.ts";

/** In Python's spelling; undefined: not asked for. */
export function loadHeader({ headers }: HttpRequest, backend: Backend): Record<string, string> | undefined {
  const format = headers.get("endpoint-load-metrics-format")?.toUpperCase();
  if (format !== "TEXT" && format !== "JSON") return undefined;
  const { waiting, kvUsage } = backend.load?.() ?? { waiting: 0, kvUsage: 0 };
  const [queue, cache] = [reprFloat(waiting), reprFloat(kvUsage)];
  const text =
    format === "JSON"
      ? `JSON {"named_metrics": {"num_requests_waiting": ${queue}, "kv_cache_usage_perc": ${cache}}}`
      : `TEXT named_metrics.num_requests_waiting=${queue}, named_metrics.kv_cache_usage_perc=${cache}`;
  return { "endpoint-load-metrics": text };
}

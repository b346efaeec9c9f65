/**
 * Reports the load of the engine in the header `endpoint-load-metrics` of whole answers. Clients ask for it with the header
 * `endpoint-load-metrics-format`.
 */

import type { Backend } from "../../../kernel/backend.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { reprFloat } from "../../pydantic/repr.ts";

/** Returns the header, with numbers as Python prints them, or undefined if the request does not ask for it. */
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

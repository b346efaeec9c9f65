/** Returns the tables of docs/reference/metrics.md, from the definitions of the dialects. */
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { metricsDialects } from "../../src/metrics/dialects.ts";
import { dialectNames } from "../../src/metrics/rows/dialect-names.ts";
import { refreshKey } from "../../src/metrics/rows/held.ts";
import { httpRoutes } from "../../src/metrics/rows/http-counts.ts";
import { setupOf } from "../../src/metrics/setup.ts";
import { METHODS } from "../../src/servers/openai/front/served.ts";

/** Metric families of vLLM 0.33 that Understudy does not show, with the condition under which vLLM shows them. */
export const LEFT_OUT: readonly (readonly [names: string, reason: string])[] = [
  ["vllm:num_requests_kv_fetch_by_stage", "needs a KV connector; prefill and decode run in one engine here"],
  ["vllm:corrupted_requests_total", "needs VLLM_COMPUTE_NANS_IN_LOGITS=1; there are no logits"],
  ["vllm:watermark_requests_total", "needs a watermark in the text; the text is made up"],
  [
    "vllm:kv_block_lifetime_seconds vllm:kv_block_idle_before_evict_seconds vllm:kv_block_reuse_gap_seconds",
    "needs --kv-cache-metrics, which has no effect here, because the core keeps no times of blocks",
  ],
  ["vllm:spec_decode_*", "needs speculative decoding, which is not simulated"],
  ["vllm:diffusion_*", "needs a diffusion model"],
  ["vllm:sleep_mode_*", "needs weights that leave and return with the sleep routes"],
  ["vllm:rl_weight_update_*", "needs the routes that load weights, which do not exist here"],
  ["vllm:websocket_*", "needs the speech routes"],
  [
    "vllm:nixl_* vllm:mooncake_* vllm:hf3fs_* vllm:hisparse_* vllm:umbp_*",
    "needs a KV connector; prefill and decode run in one engine here",
  ],
  ["vllm:simple_kv_offload_* vllm:kv_offload_*", "needs KV offloading, which is not simulated"],
];

/** Options with which a server's metrics page has all families, also those that options switch on. */
const EVERY_FAMILY = [
  "--enable-lora",
  "--tool-call-parser",
  "hermes",
  "--metrics-config",
  "histogram_latencies=true",
  "summary_latencies=true",
];

/** Returns all tables, by the name of the marker at which each stands in the page. */
export function metricsTables(): Readonly<Record<string, string>> {
  const resolved = resolveServeConfig([...EVERY_FAMILY, "--served-model-name", "m"], {}, () => "");
  if (!("config" in resolved)) throw new Error("the defaults are refused");
  const { identity } = setupOf(resolved.config, 0, httpRoutes(METHODS), true);
  const families = dialectNames.map((name) => {
    const rows = metricsDialects[name].rows(identity).map(({ name: family, type, refresh, proof }) => {
      const why =
        "moves" in proof ? `[${proof.moves.split("/").at(-1)}](../../${proof.moves})` : `still: ${proof.still}`;
      return `| \`${family}\` | ${type} | ${refreshKey(refresh)} | ${why} |`;
    });
    return [`### ${name}`, "", "| Family | Type | Refresh | Moved by, or why not |", "|---|---|---|---|", ...rows].join(
      "\n",
    );
  });
  const leftOut = LEFT_OUT.map(([names, reason]) => {
    return `| ${names
      .split(" ")
      .map((name) => `\`${name}\``)
      .join(", ")} | ${reason} |`;
  });
  return {
    families: families.join("\n\n"),
    "left-out": ["| Family | Why it is left out |", "|---|---|", ...leftOut].join("\n"),
  };
}

/**
 * Writes the tables of docs/reference/metrics.md, each between its two markers, from the definitions of the dialects. A test compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolveServeConfig } from "../src/cli/serve/resolve.ts";
import { metricsDialects } from "../src/metrics/dialects.ts";
import { dialectNames } from "../src/metrics/rows/dialect-names.ts";
import { refreshKey } from "../src/metrics/rows/held.ts";
import { httpRoutes } from "../src/metrics/rows/http-counts.ts";
import { setupOf } from "../src/metrics/setup.ts";
import { METHODS } from "../src/servers/openai/front/served.ts";

/** Families of vLLM 0.33 that we do not show, with the condition under which vLLM shows them. */
export const LEFT_OUT: readonly (readonly [names: string, reason: string])[] = [
  ["vllm:num_requests_kv_fetch_by_stage", "needs a KV connector: prefill and decode are not apart here"],
  ["vllm:corrupted_requests_total", "needs VLLM_COMPUTE_NANS_IN_LOGITS=1: there are no logits"],
  ["vllm:watermark_requests_total", "needs a watermark in the text, which is made of templates"],
  [
    "vllm:kv_block_lifetime_seconds vllm:kv_block_idle_before_evict_seconds vllm:kv_block_reuse_gap_seconds",
    "needs --kv-cache-metrics, which is not taken: the core keeps no times of blocks",
  ],
  ["vllm:spec_decode_*", "needs speculative decoding, which is not simulated"],
  ["vllm:diffusion_*", "needs a diffusion model"],
  [
    "vllm:sleep_mode_*",
    "shown with the first use of a sleep route: how long weights take to leave and to come back, and there are none",
  ],
  ["vllm:rl_weight_update_*", "needs the routes that load weights: there are none"],
  ["vllm:websocket_*", "needs the speech routes"],
  [
    "vllm:nixl_* vllm:mooncake_* vllm:hf3fs_* vllm:hisparse_* vllm:umbp_*",
    "needs a KV connector: prefill and decode are not apart here",
  ],
  ["vllm:simple_kv_offload_* vllm:kv_offload_*", "needs KV offloading, which is not simulated"],
];

/** Options that some families need to be shown. */
const EVERY_FAMILY = [
  "--enable-lora",
  "--tool-call-parser",
  "hermes",
  "--metrics-config",
  "histogram_latencies=true",
  "summary_latencies=true",
];

/** Returns the tables by the name of their marker. */
export function metricsTables(): Readonly<Record<string, string>> {
  const resolved = resolveServeConfig([...EVERY_FAMILY, "--served-model-name", "m"], {}, () => "");
  if (!("config" in resolved)) throw new Error("the defaults are refused");
  const { identity } = setupOf(resolved.config, 0, httpRoutes(METHODS), true);
  const families = dialectNames.map((name) => {
    const rows = metricsDialects[name].rows(identity).map(({ name: family, type, refresh, proof }) => {
      const why = "moves" in proof ? `[${proof.moves.split("/").at(-1)}](../../${proof.moves})` : `still: ${proof.still}`;
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

const between = (marker: string) => new RegExp(`(<!-- ${marker} -->\\n)([\\s\\S]*?)(\\n<!-- /${marker} -->)`);
/** Returns the table between the two markers of this name. Undefined if the page lacks them. */
export const tableIn = (text: string, marker: string) => between(marker).exec(text)?.[2];

if (import.meta.main) {
  const file = new URL("../docs/reference/metrics.md", import.meta.url);
  let text = readFileSync(file, "utf8");
  for (const [marker, table] of Object.entries(metricsTables())) {
    if (tableIn(text, marker) === undefined) throw new Error(`docs/reference/metrics.md lacks the markers of ${marker}`);
    text = text.replace(between(marker), (_, begin: string, __: string, end: string) => begin + table + end);
  }
  writeFileSync(file, text);
}

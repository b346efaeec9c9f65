/**
 * Metrics of older vLLM versions. From 0.8 on, vLLM has the engine that is simulated. A version's page is therefore
 * that of 0.33, without later families and with families that were removed since (`v1/metrics/loggers.py` of each
 * version). 0.6 and 0.7 had another engine (v0).
 */
import { CURRENT, type VersionProfile } from "../config/metrics-profiles.ts";
import { type Proof, type Row, withCreated } from "../rows/table.ts";
import type { Labels } from "../rows/text.ts";
import { counterOf, each, gaugeOf, histogramOf, vllmRows, zero } from "./vllm.ts";
import { vllmV0 } from "./vllm-v0.ts";

/** First version of families that 0.8 did not have. */
const SINCE: Readonly<Record<string, VersionProfile>> = {
  estimated_flops_per_gpu_total: 18,
  estimated_read_bytes_per_gpu_total: 18,
  estimated_write_bytes_per_gpu_total: 18,
  num_requests_waiting_by_reason: 22,
  engine_sleep_state: 12,
  kv_cache_usage_perc: 9,
  prefix_cache_queries_total: 9,
  prefix_cache_hits_total: 9,
  external_prefix_cache_queries_total: 12,
  external_prefix_cache_hits_total: 12,
  mm_cache_queries_total: 12,
  mm_cache_hits_total: 12,
  prompt_tokens_by_source_total: 16,
  prompt_tokens_cached_total: 16,
  prompt_tokens_cached_by_source_total: 33,
  admission_rejections_total: 33,
  inter_token_latency_seconds: 10,
  request_time_per_output_token_seconds: 11,
  request_num_preemptions: 30,
  request_prefill_kv_computed_tokens: 14,
};
/** First version of finish reasons that 0.8 did not have. */
const REASON_SINCE: Readonly<Record<string, VersionProfile>> = { error: 14, repetition: 18 };

const IN_HISTORY: Proof = { moves: "test/metrics/vllm/vllm-history.test.ts" };
const gone = (why: string): Proof => ({ still: why });

/** A family that was removed: from the first to the last version given. From `hidden` on, only shown with --show-hidden-metrics-for-version. */
interface RemovedFamily {
  readonly before: string;
  readonly from: VersionProfile;
  readonly to: VersionProfile;
  readonly hidden?: VersionProfile;
  readonly row: (profile: VersionProfile) => Row;
}

/** Returns "" until a new name exists, then the hint to it. */
const deprecated = (profile: VersionProfile, since: VersionProfile, hint: string) => (profile < since ? "" : hint);

const REMOVED: readonly RemovedFamily[] = [
  {
    before: "kv_cache_usage_perc",
    from: 8,
    to: 11,
    hidden: 11,
    row: (profile) =>
      gaugeOf(
        "gpu_cache_usage_perc",
        `GPU KV-cache usage. 1 means 100 percent usage.${deprecated(profile, 9, "DEPRECATED: Use vllm:kv_cache_usage_perc instead.")}`,
        each("kvUsage"),
        IN_HISTORY,
      ),
  },
  ...(["queries", "hits"] as const).map(
    (what): RemovedFamily => ({
      before: "kv_cache_usage_perc",
      from: 8,
      to: 11,
      hidden: 11,
      row: (profile) =>
        counterOf(
          `gpu_prefix_cache_${what}_total`,
          `GPU prefix cache ${what}, in terms of number of ${prefixUnit(profile, what)}`,
          (snapshot, identity) => {
            const blockTokens = profile < 9 ? Number(identity.cacheConfig.block_size) : 1;
            const tokens = each(what === "queries" ? "prefixQueries" : "prefixHits")(snapshot, identity);
            return tokens.map(([labels, value]) => [labels, Math.floor(value / blockTokens)]);
          },
          IN_HISTORY,
        ),
    }),
  ),
  {
    before: "generation_tokens_total",
    from: 16,
    to: 18,
    row: () =>
      counterOf(
        "prompt_tokens_recomputed_total",
        "Number of cached tokens recomputed for forward pass.",
        each(zero),
        gone("the core never recomputes a token that the cache has, but a prompt's last"),
      ),
  },
  {
    before: "inter_token_latency_seconds",
    from: 8,
    to: 14,
    hidden: 12,
    row: (profile) => ({
      ...histogramOf(
        "time_per_output_token_seconds",
        `Histogram of time per output token in seconds.${deprecated(profile, 10, "DEPRECATED: Use vllm:inter_token_latency_seconds instead.")}`,
        "interTokenLatency",
      ),
      proof: IN_HISTORY,
    }),
  },
];

function prefixUnit(profile: VersionProfile, what: "queries" | "hits"): string {
  const did = what === "queries" ? "queried" : "cached";
  if (profile < 9) return `${did} blocks.`;
  const hint = `DEPRECATED: Use vllm:prefix_cache_${what} instead.`;
  // In 0.10, one of the two texts lost the blank before "tokens", and both got one before the hint.
  if (profile < 10) return `${did} tokens.${hint}`;
  return what === "queries" ? `queriedtokens. ${hint}` : `cached tokens. ${hint}`;
}

const nameOf = (row: Row) => row.name.replace("vllm:", "");

/** Returns vLLM's own families at a version. `hidden`: includes those that this version hides. */
export function vllmAt(profile: VersionProfile, hidden: boolean): readonly Row[] {
  if (profile === CURRENT) return vllmRows;
  return profile < 8 ? vllmV0(profile) : newEngine(profile, hidden);
}

function newEngine(profile: VersionProfile, hidden: boolean): readonly Row[] {
  const old = REMOVED.filter(({ from, to, hidden: hiddenFrom }) => {
    if (profile < from || profile > to) return false;
    return hiddenFrom === undefined || profile < hiddenFrom || hidden;
  });
  return vllmRows.flatMap((row) => {
    const name = nameOf(row);
    const before = old.filter((family) => family.before === name).map(({ row }) => row(profile));
    return [...withCreated(before), ...((SINCE[name] ?? 0) <= profile ? [withReasons(row, profile)] : [])];
  });
}

/** Removes finish reasons of later versions. */
function withReasons(row: Row, profile: VersionProfile): Row {
  if (nameOf(row) !== "request_success_total") return row;
  const known = ({ labels }: { labels: Labels }) => (REASON_SINCE[labels.finished_reason!] ?? 0) <= profile;
  return {
    ...row,
    samples: (snapshot, identity) => row.samples(snapshot, identity).filter(known),
    created: (...at) => row.created!(...at).filter(known),
  };
}

/**
 * Writes the scheduler's statistics. All fields are written, because `vllm-rs` refuses a message that lacks one. Source:
 * `vllm/v1/metrics/stats.py`, vLLM 0.33.0.
 */
import {
  writeBoolean,
  writeCount,
  writeFloat,
  writeJsonObject,
  writeListOf,
  writeMapOf,
  writeNullable,
  writeStruct,
} from "./write.ts";

/** Counts since the last message. `queries` and `hits` are tokens. */
export interface PrefixCacheStats {
  readonly reset: boolean;
  readonly requests: number;
  readonly queries: number;
  readonly hits: number;
  readonly preempted_requests: number;
  readonly preempted_queries: number;
  readonly preempted_hits: number;
  readonly hits_by_source: Readonly<Record<string, number>>;
}

export interface KvCacheEvictionEvent {
  readonly lifetime_seconds: number;
  readonly idle_seconds: number;
  readonly reuse_gaps_seconds: readonly number[];
}

export interface SpecDecodingStats {
  readonly num_spec_tokens: number;
  readonly num_drafts: number;
  readonly num_draft_tokens: number;
  readonly num_accepted_tokens: number;
  readonly num_accepted_tokens_per_pos: readonly number[];
  readonly num_draft_tokens_per_pos: readonly number[];
}

type JsonObject = Readonly<Record<string, unknown>>;

export interface SchedulerStats {
  readonly num_running_reqs: number;
  readonly num_waiting_reqs: number;
  readonly num_skipped_waiting_reqs: number;
  readonly num_kv_fetch_reqs_by_stage: Readonly<Record<string, number>>;
  readonly step_counter: number;
  readonly current_wave: number;
  /** From 0 to 1. */
  readonly kv_cache_usage: number;
  readonly iteration_details: JsonObject | null;
  readonly prefix_cache_stats: PrefixCacheStats;
  readonly connector_prefix_cache_stats: PrefixCacheStats | null;
  readonly kv_cache_eviction_events: readonly KvCacheEvictionEvent[];
  readonly spec_decoding_stats: SpecDecodingStats | null;
  readonly kv_connector_stats: JsonObject | null;
  readonly ec_connector_stats: JsonObject | null;
  /** Numbers of requests by adapter. */
  readonly waiting_lora_adapters: Readonly<Record<string, number>>;
  readonly running_lora_adapters: Readonly<Record<string, number>>;
  readonly cudagraph_stats: JsonObject | null;
  readonly perf_stats: JsonObject | null;
}

const counts = writeMapOf(writeCount);

const prefixCacheStats = writeStruct<PrefixCacheStats>({
  reset: writeBoolean,
  requests: writeCount,
  queries: writeCount,
  hits: writeCount,
  preempted_requests: writeCount,
  preempted_queries: writeCount,
  preempted_hits: writeCount,
  hits_by_source: counts,
});

export const schedulerStats = writeStruct<SchedulerStats>({
  num_running_reqs: writeCount,
  num_waiting_reqs: writeCount,
  num_skipped_waiting_reqs: writeCount,
  num_kv_fetch_reqs_by_stage: counts,
  step_counter: writeCount,
  current_wave: writeCount,
  kv_cache_usage: writeFloat,
  iteration_details: writeNullable(writeJsonObject),
  prefix_cache_stats: prefixCacheStats,
  connector_prefix_cache_stats: writeNullable(prefixCacheStats),
  kv_cache_eviction_events: writeListOf(
    writeStruct<KvCacheEvictionEvent>({
      lifetime_seconds: writeFloat,
      idle_seconds: writeFloat,
      reuse_gaps_seconds: writeListOf(writeFloat),
    }),
  ),
  spec_decoding_stats: writeNullable(
    writeStruct<SpecDecodingStats>({
      num_spec_tokens: writeCount,
      num_drafts: writeCount,
      num_draft_tokens: writeCount,
      num_accepted_tokens: writeCount,
      num_accepted_tokens_per_pos: writeListOf(writeCount),
      num_draft_tokens_per_pos: writeListOf(writeCount),
    }),
  ),
  kv_connector_stats: writeNullable(writeJsonObject),
  ec_connector_stats: writeNullable(writeJsonObject),
  waiting_lora_adapters: counts,
  running_lora_adapters: counts,
  cudagraph_stats: writeNullable(writeJsonObject),
  perf_stats: writeNullable(writeJsonObject),
});

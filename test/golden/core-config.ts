/** Translates a trace's header to the core's configuration. An unknown option is an error. */
import { Config, FEED } from "../../assembly/layout.ts";
import type { TraceConfig } from "./trace.ts";

const KNOWN_CONFIG: ReadonlySet<string> = new Set<keyof TraceConfig>([
  "block_size",
  "num_gpu_blocks",
  "max_num_seqs",
  "max_num_active_seqs",
  "max_num_batched_tokens",
  "max_num_scheduled_tokens",
  "max_model_len",
  "enable_chunked_prefill",
  "long_prefill_token_threshold",
  "long_prefill_token_threshold_adaptive",
  "enable_prefix_caching",
  "policy",
  "async_scheduling",
  "watermark",
  "scheduler_reserve_full_isl",
  "prefill_schedule_interval",
  "max_loras",
]);

/** Options that the second recording does not have. They get vLLM's defaults. */
const MAY_LACK: ReadonlySet<string> = new Set<keyof TraceConfig>([
  "max_num_active_seqs",
  "max_num_scheduled_tokens",
  "long_prefill_token_threshold_adaptive",
  "max_loras",
]);

/** Returns the core's configuration. `longest`: tokens of the longest prompt. Throws for unknown and missing options. */
export function coreConfig(config: TraceConfig, eos: number, longest: number): Partial<Record<Config, number>> {
  for (const key of Object.keys(config)) {
    if (!KNOWN_CONFIG.has(key)) throw new Error(`unknown option in the header: ${key}`);
  }
  for (const key of KNOWN_CONFIG) {
    if (!MAY_LACK.has(key) && !(key in config)) throw new Error(`the header lacks the option ${key}`);
  }
  return {
    [Config.MaxModelLen]: config.max_model_len,
    [Config.MaxNumSeqs]: config.max_num_seqs,
    [Config.MaxNumActiveSeqs]: config.max_num_active_seqs ?? config.max_num_seqs,
    [Config.MaxNumBatchedTokens]: config.max_num_batched_tokens,
    [Config.MaxNumScheduledTokens]: config.max_num_scheduled_tokens ?? config.max_num_batched_tokens,
    [Config.BlockSize]: config.block_size,
    [Config.NumGpuBlocks]: config.num_gpu_blocks,
    [Config.EnablePrefixCaching]: Number(config.enable_prefix_caching),
    [Config.EnableChunkedPrefill]: Number(config.enable_chunked_prefill),
    [Config.AsyncScheduling]: Number(config.async_scheduling),
    [Config.PriorityPolicy]: Number(config.policy === "priority"),
    [Config.LongPrefillTokenThreshold]: config.long_prefill_token_threshold,
    [Config.LongPrefillTokenThresholdAdaptive]: Number(config.long_prefill_token_threshold_adaptive ?? false),
    [Config.PrefillScheduleInterval]: config.prefill_schedule_interval,
    [Config.ReserveFullIsl]: Number(config.scheduler_reserve_full_isl),
    [Config.Watermark]: config.watermark,
    [Config.MaxLoras]: config.max_loras ?? 0,
    [Config.EosId]: eos,
    [Config.KvEvents]: 1,
    [Config.InputLength]: Math.max(longest, FEED) + 64,
    [Config.Scale]: 1,
  };
}

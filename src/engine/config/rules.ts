/** Combinations of options with which vLLM 0.33 refuses to start (`config/scheduler.py`, `v1/core/kv_cache_planning.py`). */
import type { EngineConfig } from "./engine-config.ts";

/**
 * Returns the first broken rule as one line, or undefined. `at`: names an option as the user gave it. `turnsAway`: the
 * server refuses prompts that fit into no iteration.
 */
export function brokenRule(
  engine: EngineConfig,
  at: (option: string) => string,
  turnsAway = false,
): string | undefined {
  if (engine.trtllm !== undefined) return brokenTrtllmRule(engine, at, turnsAway);
  const { maxModelLen, maxNumSeqs, maxNumActiveSeqs, maxNumBatchedTokens, maxNumScheduledTokens } = engine;
  const batched = `${at("max-num-batched-tokens")} is ${maxNumBatchedTokens}`;
  const seqs = `${at("max-num-seqs")} (${maxNumSeqs})`;
  const length = `${at("max-model-len")} (${maxModelLen})`;
  if (!engine.enableChunkedPrefill && maxNumBatchedTokens < maxModelLen) {
    return `${batched}: without chunked prefill it must be at least ${length}, or the longest prompts never fit in a step`;
  }
  if (maxNumBatchedTokens < maxNumSeqs) return `${batched}: it must be at least ${seqs}`;
  if (maxNumActiveSeqs > maxNumSeqs) {
    return `${at("max-num-active-seqs")} is ${maxNumActiveSeqs}: it cannot be above ${seqs}`;
  }
  if (maxNumScheduledTokens > maxNumBatchedTokens) {
    const limit = `${at("max-num-batched-tokens")} (${maxNumBatchedTokens})`;
    return `${at("max-num-scheduled-tokens")} is ${maxNumScheduledTokens}: it cannot be above ${limit}`;
  }
  if (engine.vllm.longPrefillTokenThreshold > maxModelLen) {
    const threshold = `${at("long-prefill-token-threshold")} is ${engine.vllm.longPrefillTokenThreshold}`;
    return `${threshold}: it cannot be above ${length}`;
  }
  return poolTooSmall(engine, length, "--gpu-memory-utilization");
}

/** Rules of TensorRT-LLM's schedulers, where a prompt that can never be computed blocks all requests after it. */
function brokenTrtllmRule(
  engine: EngineConfig,
  at: (option: string) => string,
  turnsAway: boolean,
): string | undefined {
  const { maxModelLen, maxNumBatchedTokens, enableChunkedPrefill, blockSize } = engine;
  const tokens = `${at("max-num-tokens")} is ${maxNumBatchedTokens}`;
  const length = `${at("max-model-len")} (${maxModelLen})`;
  if (!turnsAway && !enableChunkedPrefill && maxNumBatchedTokens < maxModelLen) {
    return `${tokens}: without chunked prefill it must be at least ${length}, or the longest prompts never fit in an iteration`;
  }
  if (maxNumBatchedTokens < blockSize) {
    return `${tokens}: it must be at least ${at("tokens-per-block")} (${blockSize}), which is the least chunk of a prompt`;
  }
  // MAX_REQUESTS has no KV pool.
  if (engine.trtllm?.capacitySchedulerPolicy === "MAX_REQUESTS") return undefined;
  return poolTooSmall(engine, length, "--kv-cache-free-gpu-mem-fraction");
}

/** One request of full length must fit in addition to the null block. */
function poolTooSmall(engine: EngineConfig, length: string, share: string): string | undefined {
  const { blockSize, maxModelLen, numGpuBlocks } = engine;
  const needed = Math.ceil(maxModelLen / blockSize);
  const usable = Math.max(0, numGpuBlocks - 1);
  if (needed <= usable) return undefined;
  const longest = usable > 0 ? `; the longest that fits is ${usable * blockSize}` : "";
  return `one request of ${length} needs ${needed} KV blocks of ${blockSize} tokens, the KV pool has ${usable}${longest}. Raise --num-gpu-blocks-override or ${share}, or lower --max-model-len`;
}

/** Returns a warning that vLLM gives, or undefined. */
export function doubtful(engine: EngineConfig): string | undefined {
  const { maxModelLen, maxNumBatchedTokens, maxNumSeqs, trtllm } = engine;
  if (trtllm !== undefined || maxNumBatchedTokens <= maxNumSeqs * maxModelLen) return undefined;
  return `max-num-batched-tokens (${maxNumBatchedTokens}) is more than max-num-seqs times max-model-len (${maxNumSeqs * maxModelLen}); no step can be that large`;
}

/**
 * Prints records as JSON: iterations for `/metrics`, requests for `/perf_metrics`, changes of the KV cache for
 * `/kv_cache_events`. Names, order and units are those of TensorRT-LLM (version 1.3, PyTorch backend).
 */

import type { EndedRequest, Iteration, KvEvent } from "../../engine/iterations.ts";
import type { OpenAiServerConfig } from "../openai/request/openai-config.ts";

/** Facts about the server that appear in records. */
export interface ServerFacts {
  readonly config: OpenAiServerConfig;
  /** Microseconds since 1970 at time 0 of the engine's clock. */
  readonly epochUs: number;
  readonly gpuBytes: number;
  /** Bytes of a KV-cache block. */
  readonly blockBytes: number;
}

export function iterationJson(one: Iteration, facts: ServerFacts): string {
  const { engine } = facts.config;
  const { kv } = one;
  const blocks = engine.numGpuBlocks - 1;
  return withFloats({
    attentionDpRank: 0,
    cpuMemUsage: 0,
    gpuMemUsage: facts.gpuBytes,
    inflightBatchingStats: inflight(one),
    iter: one.iter,
    iterLatencyMS: (one.endUs - one.plannedUs) / 1000,
    kvCacheIterationStats: { [engine.maxModelLen]: ofIteration(one, facts, blocks) },
    kvCacheStats: {
      allocNewBlocks: kv.allocatedNew,
      allocTotalBlocks: kv.allocated,
      cacheHitRate: hitRate(kv.reused, kv.missed),
      freeNumBlocks: blocks - one.blocksUsed,
      maxNumBlocks: blocks,
      missedBlocks: kv.missed,
      reusedBlocks: kv.reused,
      tokensPerBlock: engine.blockSize,
      usedNumBlocks: one.blocksUsed,
    },
    maxBatchSizeRuntime: 0,
    maxBatchSizeStatic: engine.maxNumSeqs,
    maxBatchSizeTunerRecommended: 0,
    maxNumActiveRequests: engine.maxNumActiveSeqs,
    maxNumTokensRuntime: 0,
    maxNumTokensStatic: engine.maxNumBatchedTokens,
    maxNumTokensTunerRecommended: 0,
    newActiveRequestsQueueLatencyMS: one.newActiveWaitUs / 1000,
    numActiveRequests: one.active,
    numCompletedRequests: one.completed,
    numNewActiveRequests: one.newActive,
    numQueuedRequests: one.queued,
    pinnedMemUsage: 0,
    schedulerMode: engine.asyncScheduling ? "overlap" : "non_overlap",
    specDecodingStats: null,
    staticBatchingStats: null,
    timestamp: timestamp(facts.epochUs + one.plannedUs),
    ...(one.requests === null || one.requests.length === 0 ? {} : { requestStats: one.requests.map(requestJson) }),
  });
}

/**
 * Returns the statistics of a request. The average of decoded tokens is 0 and `paused` is false, as the PyTorch backend reports
 * them. Disaggregated serving is not imitated.
 */
const requestJson = (one: NonNullable<Iteration["requests"]>[number]) => ({
  allocNewBlocksPerRequest: one.blocks,
  allocTotalBlocksPerRequest: one.blocks,
  avgNumDecodedTokensPerIter: 0,
  contextPrefillPosition: one.prefilled,
  disServingStats: null,
  id: one.id,
  kvCacheHitRatePerRequest: hitRate(one.reusedBlocks, one.missedBlocks),
  missedBlocksPerRequest: one.missedBlocks,
  numGeneratedTokens: one.generated,
  paused: false,
  reusedBlocksPerRequest: one.reusedBlocks,
  scheduled: one.scheduled,
  stage: one.stage,
});

function inflight(one: Iteration) {
  return {
    avgNumDecodedTokensPerIter: 0,
    microBatchId: 0,
    numContextRequests: one.contexts,
    numCtxKvTokens: one.contextKvTokens,
    numCtxTokens: one.contextTokens,
    numGenKvTokens: one.generationKvTokens,
    numGenRequests: one.generations,
    numPausedKvTokens: one.pausedKvTokens,
    numPausedRequests: one.paused,
    numQueuedContextRequests: one.queued,
    numQueuedCtxTokens: one.queuedTokens,
    numQueuedGenKvTokens: 0,
    numQueuedGenRequests: 0,
    numScheduledRequests: one.contexts + one.generations,
  };
}

function ofIteration({ kvHere, blocksUsed }: Iteration, { blockBytes }: ServerFacts, blocks: number) {
  return {
    primaryMaxNumBlocks: blocks,
    primaryFreeNumBlocks: blocks - blocksUsed,
    primaryUsedNumBlocks: blocksUsed,
    secondaryMaxNumBlocks: 0,
    secondaryFreeNumBlocks: 0,
    secondaryUsedNumBlocks: 0,
    iterAllocTotalBlocks: kvHere.allocated,
    iterAllocNewBlocks: kvHere.allocatedNew,
    iterReusedBlocks: kvHere.reused,
    iterFullReusedBlocks: kvHere.reused - kvHere.reusedPartly,
    iterPartialReusedBlocks: kvHere.reusedPartly,
    iterMissedBlocks: kvHere.missed,
    iterCacheHitRate: hitRate(kvHere.reused, kvHere.missed),
    iterGenAllocBlocks: kvHere.generated,
    iterOnboardBlocks: 0,
    iterOnboardBytes: 0,
    iterOffloadBlocks: 0,
    iterOffloadBytes: 0,
    iterIntraDeviceCopyBlocks: kvHere.copied,
    iterIntraDeviceCopyBytes: kvHere.copied * blockBytes,
  };
}

export const hitRate = (reused: number, missed: number) => (reused === 0 ? 0 : reused / (reused + missed));

/** Prints the times of a request, in seconds of a steady clock that starts with the server. `offsetS` is added to each time. */
export function perfJson(one: EndedRequest, { config }: ServerFacts, offsetS: number): string {
  const { blockSize } = config.engine;
  const seconds = (us: number) => (Number.isNaN(us) ? 0 : us / 1e6) + offsetS;
  const reused = Math.ceil(one.cachedTokens / blockSize);
  const missed = Math.ceil(one.promptTokens / blockSize) - reused;
  return withFloats({
    request_id: one.id,
    perf_metrics: {
      first_iter: one.firstIter,
      last_iter: one.lastIter,
      timing_metrics: {
        server_arrival_time: seconds(one.arrivalUs),
        arrival_time: seconds(one.arrivalUs),
        first_scheduled_time: seconds(one.scheduledUs),
        first_token_time: seconds(one.firstTokenUs),
        server_first_token_time: seconds(one.firstTokenUs),
        last_token_time: seconds(one.endUs),
      },
      kv_cache_metrics: {
        num_total_allocated_blocks: missed,
        num_new_allocated_blocks: missed,
        num_reused_blocks: reused,
        num_missed_blocks: missed,
      },
    },
  });
}

/** Prints an event of the KV cache. The model has a single attention window. Hashes are unsigned 64-bit numbers. */
export function eventJson(event: KvEvent, { config }: ServerFacts): string {
  const { blockSize, maxModelLen, numGpuBlocks } = config.engine;
  const text = (data: string) => `{"event_id":${event.id},"data":${data},"window_size":${maxModelLen}}`;
  if (event.kind === "created") return text(`{"type":"created","num_blocks_per_cache_level":[${numGpuBlocks - 1},0]}`);
  if (event.kind === "removed") return text(`{"type":"removed","block_hashes":[${event.hashes.join(",")}]}`);
  const blocks = event.hashes.map((hash, i) => {
    const tokens = event.tokens
      .slice(i * blockSize, (i + 1) * blockSize)
      .map((id) => `{"type":"unique_token","token_id":${id},"token_extra_id":0}`);
    return `{"type":"stored_block","block_hash":${hash},"tokens":[${tokens}],"cache_level":0,"priority":35}`;
  });
  return text(`{"type":"stored","parent_hash":${event.parent ?? "null"},"blocks":[${blocks}]}`);
}

/** Matches members whose values are floats in Python. Python prints a whole float with ".0". */
const FLOATS =
  /"(iterLatencyMS|newActiveRequestsQueueLatencyMS|avgNumDecodedTokensPerIter|cacheHitRate|iterCacheHitRate|kvCacheHitRatePerRequest|\w+_time)":(-?\d+)(?=[,}])/g;
const withFloats = (value: object) => JSON.stringify(value).replace(FLOATS, '"$1":$2.0');

/** Formats microseconds since 1970 as `MM-DD-YYYY HH:MM:SS.ffffff` in local time. */
export function timestamp(us: number): string {
  const at = new Date(us / 1000);
  const two = (part: number) => `${part}`.padStart(2, "0");
  const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}-${at.getFullYear()}`;
  const micros = `${Math.floor(us % 1e6)}`.padStart(6, "0");
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${micros}`;
}

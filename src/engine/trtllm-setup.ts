/** Converts the configuration to the words of the core with TensorRT-LLM's policies. */
import { CapacityPolicy, ChunkingPolicy, TrtConfig } from "../../assembly/trtllm/layout.ts";
import type { EngineConfig } from "./config/engine-config.ts";
import type { TrtllmConfig } from "./config/trtllm.ts";
import type { CoreSetup } from "./wasm/core.ts";

const CAPACITY: Readonly<Record<TrtllmConfig["capacitySchedulerPolicy"], CapacityPolicy>> = {
  GUARANTEED_NO_EVICT: CapacityPolicy.GuaranteedNoEvict,
  MAX_UTILIZATION: CapacityPolicy.MaxUtilization,
  STATIC_BATCH: CapacityPolicy.StaticBatch,
  MAX_REQUESTS: CapacityPolicy.MaxRequests,
};
const CHUNKING: Readonly<Record<TrtllmConfig["contextChunkingPolicy"], ChunkingPolicy>> = {
  FIRST_COME_FIRST_SERVED: ChunkingPolicy.FirstComeFirstServed,
  EQUAL_PROGRESS: ChunkingPolicy.EqualProgress,
};

/** Returns {} for vLLM's policy. */
export function trtSetup(config: EngineConfig): Pick<CoreSetup, "trt"> {
  const { trtllm, maxNumSeqs, maxNumBatchedTokens, blockSize, maxLoras } = config;
  if (trtllm === undefined) return {};
  return {
    trt: {
      [TrtConfig.CapacityPolicy]: CAPACITY[trtllm.capacitySchedulerPolicy],
      [TrtConfig.ChunkingPolicy]: CHUNKING[trtllm.contextChunkingPolicy],
      [TrtConfig.MaxBatchSize]: maxNumSeqs,
      [TrtConfig.MaxNumRequests]: maxNumSeqs,
      [TrtConfig.MaxContextLength]: maxNumBatchedTokens,
      [TrtConfig.ChunkUnit]: blockSize,
      [TrtConfig.MaxInputLen]: trtllm.maxInputLen,
      [TrtConfig.PartialReuse]: Number(trtllm.enablePartialReuse && config.enablePrefixCaching),
      [TrtConfig.CopyOnPartialReuse]: Number(trtllm.copyOnPartialReuse),
      [TrtConfig.PrefixAwareScheduling]: Number(trtllm.enablePrefixAwareScheduling),
      // The lookahead is for several micro-batches in flight, as with pipeline parallelism. Here there is only one.
      [TrtConfig.TwoStepLookahead]: 0,
      [TrtConfig.CppExecutor]: 0,
      // One page per adapter.
      [TrtConfig.PeftPages]: Number(maxLoras > 0),
      [TrtConfig.PeftMaxPages]: maxLoras,
    },
  };
}

/** Returns the name of the core in `build/` that a configuration needs, without its ending. */
export const coreName = ({ trtllm }: Pick<EngineConfig, "trtllm">): "core" | "trtllm" =>
  trtllm === undefined ? "core" : "trtllm";

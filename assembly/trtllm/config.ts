// The configuration that only TensorRT-LLM's policies have, read once in `init`. Names follow TensorRT-LLM's options.
import { CapacityPolicy, ChunkingPolicy, TrtConfig } from "./layout";

const settings: usize = memory.data(TrtConfig.Count << 3, 8);

export let capacityPolicy: i32 = CapacityPolicy.GuaranteedNoEvict;
/** True if there is a KV cache manager. */
export let keepsBlocks = true;
export let chunkingPolicy: i32 = ChunkingPolicy.FirstComeFirstServed;
export let maxBatchSize: i32 = 0;
export let maxNumRequests: i32 = 0;
export let maxContextLength: i32 = 0;
export let chunkUnit: i32 = 1;
export let maxInputLen: i32 = 0;
export let partialReuse = false;
export let copyOnPartialReuse = false;
export let prefixAware = false;
/** Steps for which MAX_UTILIZATION needs free blocks. */
export let stepsAhead: i32 = 1;
export let cppExecutor = false;
export let peftPages: i32 = 0;
export let peftMaxPages: i32 = 0;

export function trtConfigAt(): usize {
  return settings;
}

function wordOf(index: TrtConfig): i32 {
  return <i32>load<f64>(settings + ((<usize>index) << 3));
}

export function readTrtConfig(): void {
  capacityPolicy = wordOf(TrtConfig.CapacityPolicy);
  keepsBlocks = capacityPolicy !== CapacityPolicy.MaxRequests;
  chunkingPolicy = wordOf(TrtConfig.ChunkingPolicy);
  maxBatchSize = wordOf(TrtConfig.MaxBatchSize);
  maxNumRequests = wordOf(TrtConfig.MaxNumRequests);
  maxContextLength = wordOf(TrtConfig.MaxContextLength);
  chunkUnit = wordOf(TrtConfig.ChunkUnit);
  maxInputLen = wordOf(TrtConfig.MaxInputLen);
  partialReuse = wordOf(TrtConfig.PartialReuse) !== 0;
  copyOnPartialReuse = wordOf(TrtConfig.CopyOnPartialReuse) !== 0;
  prefixAware = wordOf(TrtConfig.PrefixAwareScheduling) !== 0;
  stepsAhead = wordOf(TrtConfig.TwoStepLookahead) !== 0 ? 2 : 1;
  cppExecutor = wordOf(TrtConfig.CppExecutor) !== 0;
  peftPages = wordOf(TrtConfig.PeftPages);
  peftMaxPages = wordOf(TrtConfig.PeftMaxPages);
}

/**
 * Names that only the command line and configuration file of trtllm-serve have: aliases, and options without effect. Sources:
 * `tensorrt_llm/commands/serve.py` (1.3) for flags, `TorchLlmArgs` (`llmapi/llm_args.py`) for keys of the file.
 */
import { anyValued } from "./ignored-flags.ts";
import type { RoleNames } from "./lookup.ts";

/** Names that take one value: flags, and keys that only the configuration file has. Any value is accepted. */
const ONE = `
  allreduce-strategy attention-dp-config attention-dp-enable-balance attn-backend backend batch-wait-timeout-iters
  batch-wait-timeout-ms checkpoint-format context-parallel-size cp-config cuda-graph-config custom-module-dirs
  custom-tokenizer disable-mm-encoder enable-autotuner enable-layerwise-nvtx-marker enable-min-latency env-overrides
  extra-visual-gen-options force-dynamic-quantization garbage-collection-gen0-threshold gpus-per-node
  guided-decoding-backend kv-connector-config max-beam-width max-stats-len model-kwargs moe-cluster-parallel-size
  moe-config moe-expert-parallel-size moe-tensor-parallel-size num-postprocess-workers orchestrator-type
  peft-cache-config postprocess-tokenizer-dir pp-partition print-iter-log quant-config sampler-type
  sparse-attention-config torch-compile-config
`;

/** Flags that take no value. */
const SWITCH = `
  enable-attention-dp fail-fast-on-attention-window-too-large
`;

export const trtllmNames: RoleNames = {
  // The names that trtllm-serve gives to vLLM's options, and the aliases of trtllm-serve's own options.
  aliases: {
    "cluster-size": "moe-cluster-parallel-size",
    "cp-size": "context-parallel-size",
    "ep-size": "moe-expert-parallel-size",
    "hf-revision": "revision",
    "pp-size": "pipeline-parallel-size",
  },
  ignored: Object.fromEntries([...anyValued(ONE, "one"), ...anyValued(SWITCH, "switch")]),
};

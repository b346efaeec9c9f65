/**
 * Names that only trtllm-serve's command line and configuration file have: aliases, and options without effect. Names and
 * arities are those of `tensorrt_llm/commands/serve.py` (1.3), keys of the file those of `TorchLlmArgs` (`llmapi/llm_args.py`).
 */
import { anyValued } from "./ignored-flags.ts";
import type { RoleNames } from "./lookup.ts";

/** Flags with one value, and keys that only the file has, with any value. */
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

/** Flags without a value. */
const SWITCH = `
  enable-attention-dp fail-fast-on-attention-window-too-large
`;

export const trtllmNames: RoleNames = {
  // trtllm-serve's names for vLLM's options, and aliases of its own options.
  aliases: {
    "cluster-size": "moe-cluster-parallel-size",
    "cp-size": "context-parallel-size",
    "ep-size": "moe-expert-parallel-size",
    "hf-revision": "revision",
    "pp-size": "pipeline-parallel-size",
  },
  ignored: Object.fromEntries([...anyValued(ONE, "one"), ...anyValued(SWITCH, "switch")]),
};

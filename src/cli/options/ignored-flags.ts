/**
 * Flags of `vllm serve` 0.33 that are accepted without effect, with the number of values that each takes. Source of names and
 * numbers: `vllm/engine/arg_utils.py` and `vllm/entrypoints/common/cli_args.py`.
 */
import { VLLM_ENGINE } from "../../app/config/roles.ts";
import { joinOptions } from "./engine-options.ts";
import type { Option } from "./option.ts";

/** Flags that take one value. */
const ONE = `
  additional-config all2all-backend allowed-local-media-path 
  anthropic-disabled-thinking-effort api-server-count attention-backend attention-config aux-output-config
  chat-template chat-template-content-format code-revision cohere-format compilation-config config-format
  convert cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb
  data-parallel-backend
  data-parallel-size-local data-parallel-start-rank data-parallel-supervisor-port dbo-decode-token-threshold
  dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size decode-context-parallel-size
  default-chat-template-kwargs default-mm-loras device-ids diffusion-config disable-access-log-for-endpoints
  distributed-executor-backend distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold
  dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval dtype ec-manager-config
  ec-transfer-config elastic-ep-max-dp-size engram-config eplb-config expert-placement-strategy
  fault-tolerance-config gdn-prefill-backend generation-config grpc-port
  h11-max-header-count hf-config-path hf-overrides io-processor-plugin
  ir-op-priority jit-monitor-mode kda-decode-backend kda-prefill-backend kernel-config
  kv-cache-memory-bytes kv-cache-metrics-sample kv-offloading-backend kv-offloading-size
  kv-transfer-config limit-mm-per-prompt linear-backend load-format log-config-file log-level logging-config
  logprobs-mode lora-dtype mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode
  mamba-cache-philox-rounds mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras
  max-cudagraph-capture-size max-log-len max-lora-cls-labels max-lora-rank  
  max-parallel-loading-workers media-io-kwargs middleware mm-encoder-attn-backend
  mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin
  mm-encoder-fp8-scale-save-path mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb
  mm-processor-cache-gb mm-processor-cache-type mm-processor-device mm-processor-kwargs
  mm-shm-cache-max-object-size-mb mm-tensor-ipc model-class-overrides model-impl model-loader-extra-config
  moe-backend nnodes node-rank offload-backend offload-group-size offload-num-in-group offload-prefetch-step
  optimization-level otlp-traces-endpoint per-request-spec-decode-metrics
  performance-mode pipeline-parallel-size pooler-config prefill-context-parallel-size
  prefix-cache-retention-interval prefix-match-unit profiler-config
  pt-load-map-location quantization quantization-config reasoning-config reasoning-effort-map
  reasoning-parser-plugin renderer-num-workers replayssm-buffer-len revision root-path runner
  safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
  sleep-mode-backend sparse-indexer-topk-backend spec-method spec-model
  spec-tokens speculative-config ssl-ciphers structured-outputs-config tokenizer-mode tokenizer-revision
  tool-parser-plugin tool-server tool-strict-level ubatch-size uds
  video-pruning-method video-pruning-rate watchdog-config watermark-config weight-transfer-config worker-cls
  worker-extension-cls
`;

/** Flags that take one or more values. */
const LIST = `
  allowed-media-domains collect-detailed-traces cpu-offload-params cudagraph-capture-sizes ignore-patterns
  kv-cache-dtype-skip-layers logits-processors lora-target-modules numa-bind-cpus numa-bind-nodes
  offload-params sleep-preserve-parameter-names
`;

/** Flags that take one value or none. */
const OPTIONAL = `
  hf-token
`;

/** Flags that take no value and exist in the forms --x and --no-x. */
const TOGGLE = `
  allow-deprecated-quantization cohere-is-reasoning-model cudagraph-metrics
  data-parallel-external-lb data-parallel-hybrid-lb dcp-q-replicate disable-cascade-attn
  disable-chunked-mm-input disable-custom-all-reduce disable-hybrid-kv-cache-manager
  disable-nccl-for-dp-synchronization disable-sliding-window
  enable-batch-sharded-sampling enable-cumem-allocator enable-dbo enable-elastic-ep enable-ep-weight-filter
  enable-eplb enable-expert-parallel enable-fault-tolerance enable-flash-late-interaction
  enable-flashinfer-autotune enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs
  enable-logging-iteration-details enable-mamba-cache-stochastic-rounding
  enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
  enable-moe-shared-loras enable-nccl-comm-suspend enable-offline-docs 
  enable-prompt-embeds enable-return-routed-experts
  enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
  enable-tower-connector-lora enable-trace-replay enforce-eager exclude-tools-when-tool-choice-none
  fail-on-environ-validation fully-sharded-loras interleave-mm-strings jit-monitor-verbose kv-cache-metrics
  kv-sharing-fast-prefill language-model-only log-error-stack mm-device-do-normalize mm-encoder-only monokernel
  numa-bind ray-workers-use-nsight return-sampling-mask skip-mm-profiling
  skip-tokenizer-init sleep-mode-offload-cudagraph specialize-active-lora swa-bounded-replay tokens-only
  trust-remote-code trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-replayssm
  use-tqdm-on-load
`;

/** Flags that take no value and exist only in the form --x. */
const SWITCH = `
  aggregate-engine-logging grpc headless
`;

/** vLLM's flags with one dash, and the long name of each. */
export const shortFlags: Readonly<Record<string, string>> = {
  "-ac": "attention-config",
  "-asc": "api-server-count",
  "-cc": "compilation-config",
  "-dc": "diffusion-config",
  "-dcp": "decode-context-parallel-size",
  "-dp": "data-parallel-size",
  "-dpa": "data-parallel-address",
  "-dpb": "data-parallel-backend",
  "-dpe": "data-parallel-external-lb",
  "-dph": "data-parallel-hybrid-lb",
  "-dpl": "data-parallel-size-local",
  "-dpm": "data-parallel-multi-port-external-lb",
  "-dpn": "data-parallel-rank",
  "-dpp": "data-parallel-rpc-port",
  "-dpr": "data-parallel-start-rank",
  "-ep": "enable-expert-parallel",
  "-n": "nnodes",
  "-pcp": "prefill-context-parallel-size",
  "-pp": "pipeline-parallel-size",
  "-q": "quantization",
  "-r": "node-rank",
  "-sc": "speculative-config",
  "-tp": "tensor-parallel-size",
  "-O": "optimization-level",
};

/** Aliases, and the name of the option that each stands for. */
export const aliases: Readonly<Record<string, string>> = {
  "device-memory-utilization": "gpu-memory-utilization",
  "extra-llm-api-options": "config",
  "free-gpu-memory-fraction": "kv-cache-free-gpu-mem-fraction",
  "kv-cache-free-gpu-memory-fraction": "kv-cache-free-gpu-mem-fraction",
  "tool-parser": "tool-call-parser",
  "tp-size": "tensor-parallel-size",
};

export const ignoredOptions: Readonly<Record<string, Option>> = Object.fromEntries([
  ...anyValued(ONE, "one"),
  ...anyValued(LIST, "list"),
  ...anyValued(OPTIONAL, "optional"),
  ...anyValued(TOGGLE, "toggle"),
  ...anyValued(SWITCH, "switch"),
]);

/** Makes options that have no effect and accept any value. `names`: their names, separated by white space. */
export function anyValued(names: string, arity: Option["arity"]): [string, Option][] {
  const option: Option = { arity, accepts: "any value", metavar: "", read: (texts) => texts };
  return splitNames(names).map((name) => [name, option]);
}

/** Returns the names in a text that separates them by white space. */
export function splitNames(names: string): string[] {
  return names.trim().split(/\s+/);
}

/** Reports whether a flag of vLLM has no effect because the server of this role joins no front end of vLLM. */
export const hasNoFront = (name: string, role: string): boolean =>
  role !== VLLM_ENGINE && name in joinOptions && !("ours" in joinOptions[name as keyof typeof joinOptions]);

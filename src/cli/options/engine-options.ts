/** The options of an engine: its scheduler, its KV cache, its adapters. Names and defaults without `ours` are those of `vllm serve` 0.33. */

import { ADAPTERS_MOST, REQUESTS_MOST } from "../../base/core-limits.ts";
import { KV_CACHE_DTYPES } from "../../engine/config/kv-cache-dtypes.ts";
import { GPU_MEMORY_UTILIZATION } from "../../engine/timing/device-defaults.ts";
import { bucketsOption, checkedBuckets } from "./buckets-option.ts";
import { initially, serveGroup } from "./landing.ts";
import { loraModules, readLoraModules } from "./lora-modules.ts";
import { choice, humanInteger, integer, number, toggle } from "./option.ts";

export const engineOptions = {
  ...serveGroup("Scheduler", {
    "data-parallel-size": {
      lands: "dataParallelSize",
      ...integer(1, 256),
      ...initially(1),
      about:
        "Engines behind this server, each with its own queue and KV pool; requests are balanced as vLLM does. Also -dp.",
    },
    "max-num-seqs": {
      lands: "engine.maxNumSeqs",
      ...integer(1, REQUESTS_MOST),
      default: "by the preset's GPU",
      about: "Most sequences in one step.",
    },
    "max-num-active-seqs": {
      lands: "engine.maxNumActiveSeqs",
      ...integer(1, REQUESTS_MOST),
      default: "max-num-seqs",
      about: "Most requests that admission lets run; at most max-num-seqs.",
    },
    "max-num-batched-tokens": {
      lands: "engine.maxNumBatchedTokens",
      ...humanInteger(1),
      default: "by the preset's GPU",
      about: "Most tokens in one step.",
    },
    "max-num-scheduled-tokens": {
      lands: "engine.maxNumScheduledTokens",
      ...humanInteger(1),
      default: "max-num-batched-tokens",
      about: "Token budget of a step; at most max-num-batched-tokens.",
    },
    "scheduling-policy": {
      lands: "engine.schedulingPolicy",
      ...choice("fcfs", "priority"),
      ...initially("fcfs"),
      about: "Who runs first: by arrival, or by the request's priority (a smaller value first).",
    },
    "enable-chunked-prefill": {
      lands: "engine.enableChunkedPrefill",
      ...toggle,
      ...initially(true),
      about: "A long prompt may be spread over several steps.",
    },
    "async-scheduling": {
      lands: "engine.asyncScheduling",
      ...toggle,
      ...initially(true),
      about: "Plan the next step while one runs.",
    },
    "long-prefill-token-threshold": {
      lands: "engine.vllm.longPrefillTokenThreshold",
      ...integer(0),
      ...initially(0),
      about: "Most prompt tokens of one request per step while others wait or run; 0 is off.",
    },
    "long-prefill-token-threshold-adaptive": {
      lands: "engine.vllm.longPrefillTokenThresholdAdaptive",
      ...toggle,
      ...initially(false),
      about: "Never less than a fair share of the token budget.",
    },
    "prefill-schedule-interval": {
      lands: "engine.vllm.prefillScheduleInterval",
      ...integer(1),
      ...initially(1),
      about: "Prefill only in every n-th step; those between decode alone.",
    },
    "scheduler-reserve-full-isl": {
      lands: "engine.vllm.schedulerReserveFullIsl",
      ...toggle,
      ...initially(true),
      about: "Admit a request only when its whole prompt fits into the free blocks.",
    },
    watermark: {
      lands: "engine.vllm.watermark",
      ...number(0, 1, "max"),
      ...initially(0),
      about: "Share of the KV blocks that admission leaves free.",
    },
  }),
  ...serveGroup("KV cache", {
    "block-size": { lands: "engine.blockSize", ...integer(1, 65536), default: "16", about: "Tokens per KV block." },
    "num-gpu-blocks-override": {
      lands: "deployment.numGpuBlocksOverride",
      ...integer(1),
      initial: null,
      default: "none",
      about: "Size of the KV pool in blocks, in place of the preset's. One block is set aside.",
    },
    "gpu-memory-utilization": {
      lands: "deployment.gpuMemoryUtilization",
      ...number(0, 1, "min"),
      ...initially(GPU_MEMORY_UTILIZATION),
      about: "Share of the preset's GPU memory; what the weights leave of it is the KV pool.",
    },
    "enable-prefix-caching": {
      lands: "engine.enablePrefixCaching",
      ...toggle,
      ...initially(true),
      about: "Requests with an equal beginning share its blocks.",
    },
  }),
  ...serveGroup("LoRA", {
    "enable-lora": {
      feeds: "engine.maxLoras",
      ...toggle,
      default: "false",
      about: "LoRA adapters may be used; how many at once, is max-loras.",
    },
    "max-loras": {
      lands: "engine.maxLoras",
      ...integer(1, ADAPTERS_MOST),
      ...initially(1),
      about: "Most different adapters that run at once; requests for others are passed over until one is free.",
    },
    "lora-modules": {
      lands: "models.loraModules",
      as: readLoraModules,
      ...loraModules,
      initial: [],
      default: "none",
      about: "Adapters as name=path or JSON; a request names one in place of the model. The path need not exist.",
    },
  }),
  ...serveGroup("Scheduler", {
    "tensor-parallel-size": {
      feeds: "deployment.preset",
      ...integer(1, 1024),
      default: "the preset's",
      about: "GPUs of one engine: among the presets measured for the model, the one with so many is taken. Also -tp.",
    },
  }),
  ...serveGroup("KV cache", {
    "kv-cache-dtype": {
      lands: "deployment.kvCacheDtype",
      ...choice(...KV_CACHE_DTYPES),
      metavar: "TYPE",
      default: "auto",
      about: "Type of keys and values, as vLLM names it. With fp8 (fp8_e4m3, fp8_e5m2, fp8_inc) twice the tokens fit.",
    },
  }),
  ...serveGroup("Server", {
    "custom-histogram-buckets": {
      lands: "engine.histogramBuckets",
      as: checkedBuckets,
      ...bucketsOption,
      default: "none",
      about: `Bounds of vLLM's histograms by family, as {"request_latency": [0.1, 1]}: docs/metrics.md.`,
    },
  }),
};

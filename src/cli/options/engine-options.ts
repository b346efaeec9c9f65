/**
 * Options of the scheduler, the KV cache and LoRA adapters. A row without `ours` has the name and default of `vllm serve` 0.33.
 */

import { VLLM_ENGINE } from "../../app/config/roles.ts";
import { ADAPTERS_MOST, REQUESTS_MOST } from "../../base/core-limits.ts";
import { KV_CACHE_DTYPES } from "../../engine/config/kv-cache-dtypes.ts";
import { GPU_MEMORY_UTILIZATION } from "../../engine/timing/device-defaults.ts";
import { KV_EVENTS_DEFAULTS, kvEventsSource } from "../../kv-events/config.ts";
import { FAULT_PLAN_FORM, kvFaultPlan } from "../../kv-events/fault-plan.ts";
import { HASH_ALGORITHMS } from "../../kv-events/hash-algorithms.ts";
import { DEFAULT_PROFILE, KV_EVENTS_PROFILES } from "../../kv-events/profiles.ts";
import { FRONT_FAULTS_ACCEPTS, readFrontFaults } from "../../servers/vllm-engine/faults/front-faults.ts";
import { JOIN_DEFAULTS } from "../../servers/vllm-engine/join-config.ts";
import { bucketsOption, checkedBuckets } from "./buckets-option.ts";
import { initially, offAtStart, onAtStart, onlyTrue, ourServeGroup, serveGroup } from "./landing.ts";
import { loraModules, readLoraModules } from "./lora-modules.ts";
import {
  choice,
  freeText,
  humanInteger,
  integer,
  jsonObject,
  number,
  one,
  onlyOn,
  readable,
  row,
  toggle,
} from "./option.ts";

export const engineOptions = {
  ...serveGroup("Scheduler", {
    "data-parallel-size": row(
      "Number of engines, each with its own queue and KV pool. Requests are balanced between them as in vLLM. Also -dp.",
      { lands: "dataParallelSize", ...integer(1, 256), ...initially(1) },
    ),
    "data-parallel-multi-port-external-lb": row(
      "Give each of --data-parallel-size ranks a port of its own, from --port up, with its own queue, metrics and KV events. Also -dpm.",
      { lands: "deployment.isMultiPort", as: onlyTrue, ...onlyOn, default: "off" },
    ),
    "max-num-seqs": row("Maximum sequences in one step.", {
      lands: "engine.maxNumSeqs",
      ...integer(1, REQUESTS_MOST),
      default: "by the preset's GPU",
    }),
    "max-num-active-seqs": row("Maximum requests that run at once; at most --max-num-seqs.", {
      lands: "engine.maxNumActiveSeqs",
      ...integer(1, REQUESTS_MOST),
      default: "max-num-seqs",
    }),
    "max-num-batched-tokens": row("Maximum tokens in one step.", {
      lands: "engine.maxNumBatchedTokens",
      ...humanInteger(1),
      default: "by the preset's GPU",
    }),
    "max-num-scheduled-tokens": row("Token budget of a step; at most --max-num-batched-tokens.", {
      lands: "engine.maxNumScheduledTokens",
      ...humanInteger(1),
      default: "max-num-batched-tokens",
    }),
    "scheduling-policy": row(
      "Order in which requests run. fcfs: by arrival; priority: by the request's priority, smallest value first.",
      { lands: "engine.schedulingPolicy", ...choice("fcfs", "priority"), ...initially("fcfs") },
    ),
    "enable-chunked-prefill": row("Compute long prompts in chunks over several steps.", {
      lands: "engine.enableChunkedPrefill",
      ...onAtStart,
    }),
    "async-scheduling": row("Schedule the next step while one runs.", {
      lands: "engine.asyncScheduling",
      ...onAtStart,
    }),
    "long-prefill-token-threshold": row(
      "Maximum prompt tokens of one request per step while other requests wait or run; 0: no limit.",
      { lands: "engine.vllm.longPrefillTokenThreshold", ...integer(0), ...initially(0) },
    ),
    "long-prefill-token-threshold-adaptive": row(
      "Raise --long-prefill-token-threshold to a fair share of the token budget if it is lower.",
      { lands: "engine.vllm.longPrefillTokenThresholdAdaptive", ...offAtStart },
    ),
    "prefill-schedule-interval": row("Compute prompts only in every n-th step; the steps between only decode.", {
      lands: "engine.vllm.prefillScheduleInterval",
      ...integer(1),
      ...initially(1),
    }),
    "scheduler-reserve-full-isl": row("Admit a request only if its whole prompt fits into the free blocks.", {
      lands: "engine.vllm.schedulerReserveFullIsl",
      ...onAtStart,
    }),
    watermark: row("Share of the KV blocks that admission leaves free.", {
      lands: "engine.vllm.watermark",
      ...number(0, 1, "max"),
      ...initially(0),
    }),
  }),
  ...serveGroup("KV cache", {
    "block-size": row("Tokens per KV block.", { lands: "engine.blockSize", ...integer(1, 65536), default: "16" }),
    "num-gpu-blocks-override": row(
      "Size of the KV pool in blocks, in place of the preset's. One of them is the null block, which holds no tokens.",
      { lands: "deployment.numGpuBlocksOverride", ...integer(1), initial: null },
    ),
    "gpu-memory-utilization": row(
      "Share of the preset's GPU memory for weights and KV pool. The pool gets the part that the weights leave.",
      { lands: "deployment.gpuMemoryUtilization", ...number(0, 1, "min"), ...initially(GPU_MEMORY_UTILIZATION) },
    ),
    "enable-prefix-caching": row("Share KV blocks between requests whose prompts begin alike.", {
      lands: "engine.enablePrefixCaching",
      ...onAtStart,
    }),
  }),
  ...serveGroup("LoRA", {
    "enable-lora": row("Serve LoRA adapters; --max-loras limits how many run at once.", {
      feeds: "engine.maxLoras",
      ...toggle,
    }),
    "max-loras": row("Maximum different adapters that run at once. Requests for other adapters wait.", {
      lands: "engine.maxLoras",
      ...integer(1, ADAPTERS_MOST),
      ...initially(1),
    }),
    "lora-modules": row(
      "Adapters as name=path or JSON. A request names an adapter as its model. The path need not exist.",
      { lands: "models.loraModules", as: readLoraModules, ...loraModules, initial: [] },
    ),
  }),
  ...serveGroup("Scheduler", {
    "tensor-parallel-size": row(
      "GPUs of one engine. Chooses the model's preset that was measured with this number. Also -tp.",
      { feeds: "deployment.preset", ...integer(1, 1024), default: "the preset's" },
    ),
  }),
  ...serveGroup("KV cache", {
    "kv-cache-dtype": row(
      "Data type of the KV cache, by vLLM's names. With fp8 (fp8_e4m3, fp8_e5m2, fp8_inc) it holds twice the tokens.",
      { lands: "deployment.kvCacheDtype", ...choice(...KV_CACHE_DTYPES), metavar: "TYPE", default: "auto" },
    ),
  }),
  ...serveGroup("Server", {
    "custom-histogram-buckets": row(
      `Bucket bounds of vLLM's histograms by family, as {"request_latency": [0.1, 1]}: docs/reference/metrics.md.`,
      { lands: "engine.histogramBuckets", as: checkedBuckets, ...bucketsOption },
    ),
  }),
};

/** Options of the events about the prefix cache. */
export const kvEventsOptions = {
  ...serveGroup("KV events", {
    "kv-events-config": row(
      "Publish changes of the prefix cache over ZeroMQ. JSON as vLLM's; --kv-events-config.endpoint sets one key: docs/how-to/kv-events.md.",
      {
        lands: "kvEvents.source",
        as: kvEventsSource,
        ...jsonObject(`a JSON object, as {"enable_kv_cache_events": true}`),
        isKeyed: true,
        initial: KV_EVENTS_DEFAULTS,
      },
    ),
    "prefix-caching-hash-algo": row("Algorithm of the block hashes in KV events.", {
      lands: "kvEvents.algorithm",
      ...choice(...HASH_ALGORITHMS),
      ...initially("sha256"),
    }),
  }),
  ...ourServeGroup("KV events", {
    "kv-events-profile": row(
      "Version of vLLM whose encoding KV events have: arrays up to 0.22.0, which llm-d and AIBrix read, and maps from 0.26.0 on.",
      {
        lands: "kvEvents.profile",
        ...choice(...KV_EVENTS_PROFILES),
        metavar: "VERSION",
        ...initially(DEFAULT_PROFILE),
      },
    ),
    "kv-events-batch-size": row(
      "Send KV events in batches of this number, or after a second, in place of vLLM's batch per step.",
      { lands: "kvEvents.batchSize", ...integer(1, 1_000_000), initial: null, default: "none: a batch per step" },
    ),
    "kv-event-faults": row(
      "Faults of KV events for tests of indexers, as lost=0.01;seed=3 or late@50;late-ms=500: docs/how-to/kv-check.md.",
      {
        lands: "kvEvents.faults",
        as: (text: string) => kvFaultPlan(text)!,
        ...readable("PLAN", FAULT_PLAN_FORM, kvFaultPlan),
        initial: null,
      },
    ),
    "kv-events-hash-seed": row("Seed of block hashes, in place of the variable PYTHONHASHSEED.", {
      lands: "kvEvents.seed",
      ...freeText("TEXT", "a text"),
      initial: null,
      default: "PYTHONHASHSEED, else vLLM's",
    }),
    "kv-events-int-hashes": row(
      "Show the low 64 bits of block hashes as integers, otherwise all bytes. Also VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES.",
      { lands: "kvEvents.hasIntHashes", ...onAtStart },
    ),
  }),
};

/** Options of an engine that joins a front end of vLLM, with the names and defaults of `vllm serve`. */
const JOIN_GROUP = `Engine behind a front end of vLLM (--role ${VLLM_ENGINE})`;
export const joinOptions = {
  ...serveGroup(JOIN_GROUP, {
    "data-parallel-address": row("Host of the front end, as in its --data-parallel-address.", {
      lands: "join.address",
      ...freeText("HOST", "a host"),
      ...initially(JOIN_DEFAULTS.address),
    }),
    "data-parallel-rpc-port": row(
      "Port on which the front end waits for engines, as in its --data-parallel-rpc-port.",
      { lands: "join.rpcPort", ...integer(1, 65_535), ...initially(JOIN_DEFAULTS.rpcPort) },
    ),
    "data-parallel-rank": row(
      "Rank of the engine. Each engine of a front end has its own. With --data-parallel-size, the first of several ranks.",
      { lands: "join.rank", ...integer(0, 65_535), ...initially(JOIN_DEFAULTS.rank) },
    ),
  }),
  ...ourServeGroup(JOIN_GROUP, {
    "front-faults": row(
      "Faults of the engine that its front end sees, as output-lost@3: docs/reference/front-end-faults.md.",
      { lands: "join.faults", ...one("PLAN", FRONT_FAULTS_ACCEPTS, readFrontFaults) },
    ),
  }),
};

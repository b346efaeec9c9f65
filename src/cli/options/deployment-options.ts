/** How is the real server deployed, as far as it shows: GPUs, type of the KV cache, bounds of metrics, routes beside the API? */
import { KV_CACHE_DTYPES } from "../../engine/config/kv-cache-dtypes.ts";
import { bucketsOption } from "./buckets-option.ts";
import { choice, inGroup, integer, toggle } from "./option.ts";

export const deploymentOptions = {
  ...inGroup("Scheduler", {
    "tensor-parallel-size": {
      ...integer(1, 1024),
      default: "the preset's",
      about: "GPUs of one engine: among the presets measured for the model, the one with so many is taken. Also -tp.",
    },
  }),
  ...inGroup("KV cache", {
    "kv-cache-dtype": {
      ...choice(...KV_CACHE_DTYPES),
      metavar: "TYPE",
      default: "auto",
      about: "Type of keys and values, as vLLM names it. With fp8 (fp8_e4m3, fp8_e5m2, fp8_inc) twice the tokens fit.",
    },
  }),
  ...inGroup("Server", {
    "custom-histogram-buckets": {
      ...bucketsOption,
      default: "none",
      about: `Bounds of vLLM's histograms by family, as {"request_latency": [0.1, 1]}: docs/metrics.md.`,
    },
    "enable-tokenizer-info-endpoint": {
      ...toggle,
      default: "false",
      about: "GET /tokenizer_info says what the tokenizer's configuration says.",
    },
    "enable-scale-out": {
      ...toggle,
      default: "false",
      about: "Not built: /inference/v1/generate and the render routes then say so with 501, without it vLLM's 403.",
    },
  }),
} as const;

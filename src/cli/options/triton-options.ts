/** The options of Triton's metrics. Names, syntax and defaults are those of `tritonserver`. */
import { DEFAULT_INTERVAL_MS, parseMetricsConfig, readTritonBoolean } from "../../metrics/config/triton-metrics.ts";
import { initially, ourServeGroup } from "./landing.ts";
import { freeText, integer, one, texts } from "./option.ts";

export const tritonBoolean = one<boolean>("BOOLEAN", "true, on, 1, false, off or 0", readTritonBoolean);

export const tritonOptions = ourServeGroup("Triton's metrics", {
  "allow-metrics": {
    lands: "metrics.triton.metrics",
    ...tritonBoolean,
    ...initially(true),
    about: "The metrics of a Triton server, and of TensorRT-LLM's backend in it.",
  },
  "allow-gpu-metrics": {
    lands: "metrics.triton.gpu",
    ...tritonBoolean,
    ...initially(true),
    about: "Triton's metrics of the preset's GPUs, made up.",
  },
  "allow-cpu-metrics": {
    lands: "metrics.triton.cpu",
    ...tritonBoolean,
    ...initially(true),
    about: "Triton's metrics of this machine: processor and memory.",
  },
  "metrics-port": {
    lands: "metrics.triton.listen.port",
    ...integer(0, 65535),
    default: "none",
    about: "Port of their own, as Triton's 8002, with nothing but these metrics. 0 takes a free one.",
  },
  "metrics-address": {
    lands: "metrics.triton.listen.host",
    ...freeText("ADDRESS", "an address"),
    default: "--host",
    about: "Address of that port.",
  },
  "metrics-interval-ms": {
    lands: "metrics.triton.intervalMs",
    ...integer(1),
    ...initially(DEFAULT_INTERVAL_MS),
    about: "Values of GPUs and machine change every half of this.",
  },
  "metrics-config": {
    feeds: "metrics.triton",
    ...texts("SETTING=VALUE", "settings, each as SETTING=VALUE"),
    default: "none",
    about:
      "One setting; give the option again for another, as with tritonserver: counter_latencies=false, histogram_latencies=true, summary_latencies=true or summary_quantiles=0.5:0.05,0.9:0.01.",
  },
});

type Values = { readonly [K in keyof typeof tritonOptions]?: ReturnType<(typeof tritonOptions)[K]["read"]> };

/** Reads `--metrics-config`. Several `workers` cannot each take a free port. */
export function tritonSettings(values: Values, workers: number): ReturnType<typeof parseMetricsConfig> {
  const settings = parseMetricsConfig(values["metrics-config"] ?? []);
  if ("error" in settings || values["metrics-port"] !== 0 || workers === 1) return settings;
  return { error: "--metrics-port 0: with several --workers it must be a port's number" };
}

/** Which options of `tritonserver` are there, and what comes of them? Names, syntax and defaults as Triton's. */
import {
  DEFAULT_ENSEMBLE,
  DEFAULT_INTERVAL_MS,
  parseMetricsConfig,
  readTritonBoolean,
  type TritonMetricsConfig,
} from "../../metrics/config/triton-metrics.ts";
import { freeText, integer, one, ourGroup, texts } from "./option.ts";

export const tritonBoolean = one<boolean>("BOOLEAN", "true, on, 1, false, off or 0", readTritonBoolean);

export const tritonOptions = ourGroup("Triton's metrics", {
  "allow-metrics": {
    ...tritonBoolean,
    default: "true",
    about: "The metrics of a Triton server, and of TensorRT-LLM's backend in it.",
  },
  "allow-gpu-metrics": { ...tritonBoolean, default: "true", about: "Triton's metrics of the preset's GPUs, made up." },
  "allow-cpu-metrics": {
    ...tritonBoolean,
    default: "true",
    about: "Triton's metrics of this machine: processor and memory.",
  },
  "metrics-port": {
    ...integer(0, 65535),
    default: "none",
    about: "Port of their own, as Triton's 8002, with nothing but these metrics. 0 takes a free one.",
  },
  "metrics-address": { ...freeText("ADDRESS", "an address"), default: "--host", about: "Address of that port." },
  "metrics-interval-ms": {
    ...integer(1),
    default: `${DEFAULT_INTERVAL_MS}`,
    about: "Values of GPUs and machine change every half of this.",
  },
  "metrics-config": {
    ...texts("SETTING=VALUE", "settings, each as SETTING=VALUE"),
    default: "none",
    about:
      "One setting; give the option again for another, as with tritonserver: counter_latencies=false, histogram_latencies=true, summary_latencies=true or summary_quantiles=0.5:0.05,0.9:0.01.",
  },
});

type Values = { readonly [K in keyof typeof tritonOptions]?: ReturnType<(typeof tritonOptions)[K]["read"]> };

/** `host` is the server's; several `workers` cannot each take a free port. `ensemble`: what its models' ensemble is called. */
export function tritonMetrics(
  values: Values,
  host: string,
  workers: number,
  ensemble: string = DEFAULT_ENSEMBLE,
): { readonly config: TritonMetricsConfig; readonly notices: readonly string[] } | { readonly error: string } {
  const settings = parseMetricsConfig(values["metrics-config"] ?? []);
  if ("error" in settings) return settings;
  const port = values["metrics-port"];
  if (port === 0 && workers > 1)
    return { error: "--metrics-port 0: with several --workers it must be a port's number" };
  const metrics = values["allow-metrics"] ?? true;
  const { notices, ...shown } = settings;
  const config: TritonMetricsConfig = {
    ...shown,
    metrics,
    ensemble,
    gpu: metrics && (values["allow-gpu-metrics"] ?? true),
    cpu: metrics && (values["allow-cpu-metrics"] ?? true),
    intervalMs: values["metrics-interval-ms"] ?? DEFAULT_INTERVAL_MS,
    listen: metrics && port !== undefined ? { host: values["metrics-address"] ?? host, port } : null,
  };
  return { config, notices };
}

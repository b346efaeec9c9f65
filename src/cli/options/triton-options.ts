/** Options of Triton's metrics. Names, syntax and defaults are those of `tritonserver`. */
import { DEFAULT_INTERVAL_MS, parseMetricsConfig, readTritonBoolean } from "../../metrics/config/triton-metrics.ts";
import { initially, ourServeGroup } from "./landing.ts";
import { freeText, integer, one, row, texts } from "./option.ts";

export const tritonBoolean = {
  ...one<boolean>("BOOLEAN", "true, on, 1, false, off or 0", readTritonBoolean),
  default: "false",
};
export const trueAtStart = { ...tritonBoolean, ...initially(true) };
export const falseAtStart = { ...tritonBoolean, ...initially(false) };

export const tritonOptions = ourServeGroup("Triton's metrics", {
  "allow-metrics": row("Serve the metrics of a Triton server and of its TensorRT-LLM backend.", {
    lands: "metrics.triton.metrics",
    ...trueAtStart,
  }),
  "allow-gpu-metrics": row("Include made-up values of Triton's GPU metrics, for the preset's GPUs.", {
    lands: "metrics.triton.gpu",
    ...trueAtStart,
  }),
  "allow-cpu-metrics": row("Include Triton's CPU and memory metrics, measured on this machine.", {
    lands: "metrics.triton.cpu",
    ...trueAtStart,
  }),
  "metrics-port": row("Additional port that serves only Triton's metrics, as 8002 does for Triton. 0: any free port.", {
    lands: "metrics.triton.listen.port",
    ...integer(0, 65535),
  }),
  "metrics-address": row("Address of --metrics-port.", {
    lands: "metrics.triton.listen.host",
    ...freeText("ADDRESS", "an address"),
    default: "--host",
  }),
  "metrics-interval-ms": row("Twice the milliseconds between updates of GPU, CPU and memory metrics.", {
    lands: "metrics.triton.intervalMs",
    ...integer(1),
    ...initially(DEFAULT_INTERVAL_MS),
  }),
  "metrics-config": row(
    "One setting of Triton's metrics; give the option once per setting: counter_latencies=false, histogram_latencies=true, summary_latencies=true or summary_quantiles=0.5:0.05,0.9:0.01.",
    { feeds: "metrics.triton", ...texts("SETTING=VALUE", "settings, each as SETTING=VALUE") },
  ),
});

/**
 * The options of Triton's metrics for the roles other than Triton, marked as deprecated in the help text. These roles compute
 * Triton's metrics from the requests of their own APIs.
 */
export const derivedTritonOptions = deprecated(tritonOptions);

function deprecated<const R extends Readonly<Record<string, { readonly about: string }>>>(rows: R) {
  const sentence = "Deprecated: use --role triton, a Triton server with all of these metrics.";
  const withSentence = Object.entries(rows).map(([name, row]) => [name, { ...row, about: `${row.about} ${sentence}` }]);
  return Object.fromEntries(withSentence) as { [Name in keyof R]: Omit<R[Name], "about"> & { readonly about: string } };
}

/**
 * Returns a notice that options of Triton's metrics are deprecated in roles other than Triton. It names the options that the
 * user set. Returns undefined if the user set none. `--allow-metrics false` needs no notice, because it turns these metrics
 * off.
 */
export function deprecatedTritonMetrics(values: Values): string | undefined {
  if (values["allow-metrics"] === false) return undefined;
  const given = Object.keys(tritonOptions).filter((name) => values[name as keyof Values] !== undefined);
  if (given.length === 0) return undefined;
  const names = given.map((name) => `--${name}`).join(", ");
  return `${names}: deprecated for this role; use --role triton, a Triton server with all of these metrics`;
}

type Values = { readonly [K in keyof typeof tritonOptions]?: ReturnType<(typeof tritonOptions)[K]["read"]> };

/** Reads `--metrics-config`. Refuses `--metrics-port 0` with several workers, because each worker would get a different port. */
export function tritonSettings(values: Values, workers: number): ReturnType<typeof parseMetricsConfig> {
  const settings = parseMetricsConfig(values["metrics-config"] ?? []);
  if ("error" in settings || values["metrics-port"] !== 0 || workers === 1) return settings;
  return { error: "--metrics-port 0: must be 1 to 65535 with several --workers" };
}

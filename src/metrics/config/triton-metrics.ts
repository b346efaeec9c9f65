/**
 * Parses Triton's metrics options with the syntax, defaults and errors of `tritonserver`: `command_line_parser.cc`,
 * `metric_model_reporter.cc` (2026). Errors of the option's form also match 2.51.0.
 */

/** A quantile of the summaries and the allowed error of its estimate. */
interface Quantile {
  readonly quantile: number;
  readonly error: number;
}

export interface TritonMetricsConfig {
  /** `--allow-metrics`, `--allow-gpu-metrics`, `--allow-cpu-metrics`. Without the first there are no metrics. */
  readonly metrics: boolean;
  readonly gpu: boolean;
  readonly cpu: boolean;
  /** Name of the ensemble. Its steps have the names of TensorRT-LLM's model repository. */
  readonly ensemble: string;
  /** `counter_latencies`. If false, duration counters are missing and all other counters stand still, as in the real server. */
  readonly counters: boolean;
  /** `histogram_latencies`. */
  readonly histograms: boolean;
  /** `summary_quantiles`. Empty unless `summary_latencies` is true. */
  readonly quantiles: readonly Quantile[];
  /** Milliseconds between updates of the values of GPU, CPU and pinned memory. */
  readonly intervalMs: number;
  /** Listener of its own, like Triton's metrics port. null: none. */
  readonly listen: { readonly host: string; readonly port: number } | null;
}

export const DEFAULT_INTERVAL_MS = 2000;
export const DEFAULT_ENSEMBLE = "ensemble";
const DEFAULT_QUANTILES: readonly Quantile[] = [
  { quantile: 0.5, error: 0.05 },
  { quantile: 0.9, error: 0.01 },
  { quantile: 0.95, error: 0.001 },
  { quantile: 0.99, error: 0.001 },
  { quantile: 0.999, error: 0.001 },
];
/** Largest number of quantiles. */
const QUANTILES_MAX = 32;

const SWITCHES = ["counter_latencies", "histogram_latencies", "summary_latencies"];
const SETTINGS = `each value is one setting: ${SWITCHES.join(", ")} =true or =false, summary_quantiles=0.5:0.05,0.9:0.01`;

type TritonMetricsInput = Pick<TritonMetricsConfig, "metrics" | "gpu" | "cpu" | "intervalMs"> & {
  readonly listen?: { readonly host?: string; readonly port?: number };
};

/** `host`: the address of the server, where the port of the metrics is unless another address is given. */
export function completeTritonMetrics(
  { metrics, gpu, cpu, intervalMs, listen: { port, ...address } = {} }: TritonMetricsInput,
  settings: Settings,
  { host, ensemble = DEFAULT_ENSEMBLE }: { readonly host: string; readonly ensemble?: string | undefined },
): TritonMetricsConfig {
  return {
    ...settings,
    metrics,
    ensemble,
    gpu: metrics && gpu,
    cpu: metrics && cpu,
    intervalMs,
    listen: metrics && port !== undefined ? { host, ...address, port } : null,
  };
}

type Settings = Pick<TritonMetricsConfig, "counters" | "histograms" | "quantiles">;

/**
 * Parses the values of `--metrics-config` in order. Like the real server, ignores unknown settings and values other
 * than true and false; the real server is silent, while Understudy returns a notice. Invalid entries of
 * `summary_quantiles` are left out with a notice, like the real server's log line.
 */
export function parseMetricsConfig(
  texts: readonly string[],
): (Settings & { readonly notices: readonly string[] }) | { readonly error: string } {
  let [counters, histograms, summaries] = [true, false, false];
  let quantiles = DEFAULT_QUANTILES;
  const notices: string[] = [];
  for (const text of texts) {
    const [, setting, value] = /^([^,=]+)=(.+)$/s.exec(text) ?? [];
    if (setting === undefined || value === undefined)
      return { error: `--metrics-config option format is <setting>=<value>. Got ${text}` };
    if (!(setting === "summary_quantiles" || (SWITCHES.includes(setting) && /^(true|false)$/.test(value))))
      notices.push(`--metrics-config ${text} means nothing, to tritonserver too; ${SETTINGS}`);
    if (setting === "counter_latencies" && value === "false") counters = false;
    if (setting === "histogram_latencies" && value === "true") histograms = true;
    if (setting === "summary_latencies" && value === "true") summaries = true;
    if (setting === "summary_quantiles") {
      const read = readQuantiles(value);
      notices.push(...read.notices);
      if (read.quantiles.length > QUANTILES_MAX)
        return { error: `--metrics-config summary_quantiles: more than ${QUANTILES_MAX} quantiles` };
      if (read.quantiles.length > 0) quantiles = read.quantiles;
    }
  }
  return { counters, histograms, quantiles: summaries ? quantiles : [], notices };
}

function readQuantiles(text: string): { quantiles: Quantile[]; notices: string[] } {
  const quantiles: Quantile[] = [];
  const notices: string[] = [];
  for (const pair of text.split(",")) {
    const at = pair.indexOf(":");
    const [quantile, error] = [number(pair.slice(0, at)), number(pair.slice(at + 1))];
    if (at < 0)
      notices.push(`Invalid option: [${pair}]. No ':' delimiter found. Expected format is <quantile>:<error>`);
    else if (Number.isNaN(quantile) || Number.isNaN(error)) notices.push(`Invalid option: [${pair}]. Error: stod`);
    else quantiles.push({ quantile, error });
  }
  return { quantiles, notices };
}

/** Returns the number at the start of the text, like C++'s `stod`. */
const number = (text: string) => Number.parseFloat(text);

/** Parses one of Triton's booleans. Returns undefined for anything else. */
export function readTritonBoolean(text: string): boolean | undefined {
  if (/^(true|on|1)$/i.test(text)) return true;
  return /^(false|off|0)$/i.test(text) ? false : undefined;
}

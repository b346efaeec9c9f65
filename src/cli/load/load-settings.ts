/**
 * Builds the settings of a load run. Fills in defaults that depend on other options, and refuses options that exclude each
 * other.
 */

import { generates } from "../../tools/load/requests/dialects.ts";
import type { LoopSettings, Settings } from "../../tools/load/settings.ts";
import { FLAT_METRICS } from "../../tools/load/vllm-keys.ts";
import type { UsageError } from "../options/given.ts";
import { traceOptionsOf } from "../trace-options.ts";
import { backendHeaders, DEFAULT_BACKEND, refusedByBackend } from "./load-backends.ts";
import type { LoadValues } from "./load-options.ts";

const DATASETS_WITH_TIMES = ["mooncake", "bailian", "weka", "azure", "burstgpt", "otel"];
const PERCENTILES = [50, 90, 95, 99];

export interface LoadEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly command: string;
  readonly version: string;
  /** Returns the text of a file, or "" if the file cannot be read. */
  readonly read: (path: string) => string;
}

export function settingsOf(values: LoadValues, environment: LoadEnvironment): Settings | UsageError {
  const url = values.url ?? new URL("http://127.0.0.1:8000");
  url.pathname = url.pathname.replace(/\/(v1\/?)?$/, "");
  if (values.endpoint !== undefined && !values.endpoint.startsWith("/")) {
    return { error: `--endpoint ${values.endpoint}: takes a path that begins with /` };
  }
  const loop = refusedByBackend(values) ?? loopOf(values);
  if ("error" in loop) return loop;
  const closed = loop.kind === "closed";
  if (values["cancel-rate"] && values["slow-reader-rate"] && values["cancel-rate"] + values["slow-reader-rate"] > 100) {
    return { error: "--cancel-rate and --slow-reader-rate: more than 100 % together" };
  }
  const ca = values["ssl-ca-certs"] === undefined ? null : environment.read(values["ssl-ca-certs"]);
  if (ca !== null && !ca.includes("BEGIN CERTIFICATE"))
    return { error: `--ssl-ca-certs ${values["ssl-ca-certs"]}: holds no certificate in PEM form, or cannot be read` };
  const { backend = DEFAULT_BACKEND } = values;
  const hasTokens = generates(backend);
  const log = values["check-truth-log"] ?? null;
  const metricsUrl = values["metrics-url"]?.href ?? `${url.href.replace(/\/$/, "")}/metrics`;
  return {
    url,
    endpoint: values.endpoint ?? null,
    dialect: backend,
    model: values.model ?? null,
    headers: backendHeaders(values, environment.env),
    insecure: values.insecure ?? false,
    ca,
    loop,
    concurrency: values.concurrency ?? (closed ? 1 : null),
    count: values["num-prompts"] ?? null,
    durationS: values.duration ?? null,
    graceS: values["grace-period"] ?? 30,
    warmUpCount: values["warmup-request-count"] ?? 0,
    warmUpS: values["warmup-duration"] ?? 0,
    dataset: {
      name: values["dataset-name"] ?? "random",
      path: values["dataset-path"],
      inputLen: values["input-len"],
      outputLen: values["output-len"],
      rangeRatio: values["random-range-ratio"],
      prefixLen: values["random-prefix-len"],
      suffixLen: values["prefix-repetition-suffix-len"],
      numPrefixes: values["prefix-repetition-num-prefixes"],
      trace: traceOptionsOf(values),
      turns: values.turns,
      think: values["think-time"],
    },
    skipBad: values["skip-bad"] ?? false,
    stream: !(values["no-stream"] ?? (backend === "triton-http" || !hasTokens)),
    legacyMaxTokens: values["legacy-max-tokens"] ?? false,
    ignoreEos: values["ignore-eos"] ?? false,
    minTokens: values["min-tokens"] ?? null,
    temperature: values.temperature ?? null,
    extraBody: values["extra-body"] ?? {},
    slo: values.goodput ?? values["sweep-until"]?.slo ?? null,
    metrics: values["percentile-metrics"] ?? (hasTokens ? FLAT_METRICS : ["e2el"]),
    percentiles: values["metric-percentiles"] ?? PERCENTILES,
    cancelShare: (values["cancel-rate"] ?? 0) / 100,
    cancelAfterS: values["cancel-delay"] ?? 0,
    slowShare: (values["slow-reader-rate"] ?? 0) / 100,
    seed: values.seed ?? 0,
    pooled: values.connections !== "never",
    timeoutS: values.timeout ?? 600,
    retries: values.retries ?? 0,
    metricsUrl: values["no-server-metrics"] ? null : metricsUrl,
    metricsIntervalS: values["metrics-interval"] ?? 1,
    truth: values["check-truth"] || log !== null ? { log } : null,
    label: values.label ?? null,
    metadata: values.metadata ?? {},
    detailed: values["save-detailed"] ?? false,
    command: environment.command,
    version: environment.version,
  };
}

function loopOf(values: LoadValues): LoopSettings | UsageError {
  const rate = values.sweep?.over === "rate" ? values.sweep.values[0] : values["request-rate"];
  const strategy = values["ramp-up-strategy"];
  const [startRps, endRps] = [values["ramp-up-start-rps"], values["ramp-up-end-rps"]];
  const isTimed = DATASETS_WITH_TIMES.includes(values["dataset-name"] ?? "random");
  const speedup = values["replay-speedup"];
  const scheduled = values["fixed-schedule"] ?? (isTimed && rate === undefined && strategy === undefined);
  const rateFlags = ["arrival-pattern", "burstiness", "rescale-arrivals"] as const;
  if (values.sweep !== undefined && (strategy !== undefined || values["fixed-schedule"])) {
    return { error: "--sweep: not possible with a ramp or a fixed schedule" };
  }
  if (values.sweep !== undefined && values.sweep.over === "rate" && values["request-rate"] !== undefined) {
    return { error: "--sweep and --request-rate: both set the rate" };
  }
  if (values["sweep-until"] !== undefined && values.sweep === undefined) {
    return { error: "--sweep-until: needs --sweep" };
  }
  if (scheduled && values.sweep === undefined) {
    if (rate !== undefined || strategy !== undefined) {
      return {
        error: "--request-rate and --ramp-up-strategy: a fixed schedule has its own times (--no-fixed-schedule)",
      };
    }
    const stray = rateFlags.find((name) => values[name] !== undefined);
    if (stray !== undefined) return { error: `--${stray}: a fixed schedule has its own times (--no-fixed-schedule)` };
    return { kind: "schedule", speedup: speedup ?? 1 };
  }
  if (speedup !== undefined) return { error: "--replay-speedup: needs the times of a dataset (--fixed-schedule)" };
  if (strategy === undefined && (startRps !== undefined || endRps !== undefined)) {
    return { error: "--ramp-up-start-rps and --ramp-up-end-rps: need --ramp-up-strategy" };
  }
  if (strategy !== undefined) {
    if (startRps === undefined || endRps === undefined) {
      return { error: "--ramp-up-strategy: needs --ramp-up-start-rps and --ramp-up-end-rps" };
    }
    if (rate !== undefined) return { error: "--ramp-up-strategy and --request-rate: both set the rate" };
    if (values["num-prompts"] === undefined && values.duration === undefined) {
      return { error: "--ramp-up-strategy: needs --num-prompts or --duration, over which the rate grows" };
    }
  }
  if (rate === undefined && strategy === undefined) {
    const stray = rateFlags.find((name) => values[name] !== undefined);
    return stray === undefined ? { kind: "closed" } : { error: `--${stray}: needs --request-rate` };
  }
  const burstiness = values.burstiness ?? 1;
  const pattern = values["arrival-pattern"] ?? (burstiness === 1 ? "poisson" : "gamma");
  if (pattern !== "gamma" && values.burstiness !== undefined && burstiness !== 1) {
    return { error: `--burstiness: needs --arrival-pattern gamma, not ${pattern}` };
  }
  if (rate === Number.POSITIVE_INFINITY && values["num-prompts"] === undefined && values.duration !== undefined) {
    return {
      error: "--request-rate inf: needs --num-prompts, because with a duration the number of requests has no limit",
    };
  }
  return {
    kind: "open",
    rate: rate ?? endRps!,
    pattern,
    burstiness,
    ramp: strategy === undefined ? null : { strategy, startRps: startRps!, endRps: endRps! },
    rescale: values["rescale-arrivals"] ?? false,
  };
}

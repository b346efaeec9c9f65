/** From the options of the wire to their configuration: what was not said stays away. */
import type { CorsConfig, WireConfig } from "../../config/types.ts";
import type { ChosenParsers } from "./parser-options.ts";
import type { ServeValues } from "./serve-options.ts";

const ALL = ["*"];
/** As the tool that makes such files names it. */
const DATASET_TABLE = "llmd";

export function wireConfig(
  values: ServeValues,
  { toolFormat, reasoningFormat }: Pick<ChosenParsers, "toolFormat" | "reasoningFormat">,
): { readonly wire?: WireConfig } {
  const config = {
    tokenizer: values.tokenizer,
    script: values.script,
    reasoningParser: reasoningFormat,
    reasoningField: values["reasoning-field"],
    toolCallParser: toolFormat,
    autoToolChoice: values["enable-auto-tool-choice"],
    failureRate: values["failure-injection-rate"],
    failureTypes: values["failure-types"]?.length ? values["failure-types"] : undefined,
    faultRate: values["fault-rate"],
    faultTypes: values["fault-types"]?.length ? values["fault-types"] : undefined,
    faultPlan: values["fault-plan"],
    toolCallShare: values["tool-call-share"],
    toolHabits: values["tool-arguments"],
    cacheHitThreshold: values["cache-hit-threshold"],
    kvTransferTime: values["kv-transfer-time"],
    meanReasoningTokens: values["mean-reasoning-tokens"],
    imageTokens: values["image-tokens"],
    embeddingDimensions: values["embedding-dimensions"],
    responseStore: values["response-store"],
    fixtures: values.fixtures,
    replayTiming: values["replay-timing"],
    dataset: dataset(values),
    echo: values.answers === "echo" ? true : undefined,
    promptedJson: values.answers === "prompted-json" ? true : undefined,
    requestOrders: values["allow-request-orders"],
    responseRole: values["response-role"],
    fingerprintMode: values["fingerprint-mode"],
    fingerprintValue: values["fingerprint-value"],
    trackServerLoad: values["enable-server-load-tracking"],
    tokenizerInfo: values["enable-tokenizer-info-endpoint"] || undefined,
    scaleOut: values["enable-scale-out"] || undefined,
    perRequestMetrics: values["enable-per-request-metrics"],
    tokensAsIds: values["return-tokens-as-token-ids"],
    keepAliveS: values["sse-keep-alive-interval"],
    maxNumQueuedReqs: values["max-num-queued-reqs"],
    maxNumQueuedTokens: values["max-num-queued-tokens"],
    generation: values["override-generation-config"],
    cors: cors(values),
  };
  const said = Object.entries(config).filter(([, value]) => value !== undefined);
  return said.length === 0 ? {} : { wire: Object.fromEntries(said) };
}

function dataset(values: ServeValues): WireConfig["dataset"] {
  const { dataset: file, "dataset-table": table = DATASET_TABLE, "dataset-in-memory": inMemory = false } = values;
  return file === undefined ? undefined : { file, table, inMemory };
}

function cors(values: ServeValues): CorsConfig | undefined {
  const {
    "allowed-origins": origins,
    "allowed-methods": methods,
    "allowed-headers": headers,
    "allow-credentials": credentials,
  } = values;
  if (!origins && !methods && !headers && !credentials) return undefined;
  return {
    origins: origins ?? [],
    methods: methods ?? ALL,
    headers: headers ?? ALL,
    credentials: credentials ?? false,
  };
}

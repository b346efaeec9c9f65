/** Makes the configurations of owners that follow from single options. What was not given stays absent. */
import type { FaultsConfig } from "../../faults/faults-config.ts";
import type { LogsConfig, QueueConfig } from "../../kernel/kernel-config.ts";
import type { CorsConfig, OpenAiConfig } from "../../servers/openai/request/openai-config.ts";
import type { TextConfig } from "../../text/text-config.ts";
import type { ChosenParsers } from "./parser-options.ts";
import type { ServeValues } from "./serve-options.ts";

const ALL = ["*"];
/** The table that the tool for such files writes. */
const DATASET_TABLE = "llmd";

type Undefinable<T> = { readonly [K in keyof T]: T[K] | undefined };

/** Returns the members that are not undefined. */
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

export function textConfig(
  values: ServeValues,
  { toolFormat, reasoningFormat }: Pick<ChosenParsers, "toolFormat" | "reasoningFormat">,
  outputTokens: TextConfig["outputTokens"],
): TextConfig {
  const optional: Undefinable<Omit<TextConfig, "outputTokens">> = {
    tokenizer: values.tokenizer,
    script: values.script,
    reasoningParser: reasoningFormat,
    toolCallParser: toolFormat,
    fixtures: values.fixtures,
    replayTiming: values["replay-timing"],
    dataset: dataset(values),
    echo: values.answers === "echo" ? true : undefined,
    promptedJson: values.answers === "prompted-json" ? true : undefined,
  };
  return { ...given(optional), outputTokens };
}

export function faultsConfig(values: ServeValues): FaultsConfig {
  return given({
    failureRate: values["failure-injection-rate"],
    failureTypes: values["failure-types"]?.length ? values["failure-types"] : undefined,
    faultRate: values["fault-rate"],
    faultTypes: values["fault-types"]?.length ? values["fault-types"] : undefined,
    faultPlan: values["fault-plan"],
  });
}

export function queueConfig(values: ServeValues): QueueConfig {
  return given({
    maxNumQueuedReqs: values["max-num-queued-reqs"],
    maxNumQueuedTokens: values["max-num-queued-tokens"],
    cacheHitThreshold: values["cache-hit-threshold"],
    kvTransferTime: values["kv-transfer-time"],
  });
}

export function apiConfig(values: ServeValues): OpenAiConfig {
  const front = {
    cors: cors(values),
    trackServerLoad: values["enable-server-load-tracking"],
    tokenizerInfo: values["enable-tokenizer-info-endpoint"] || undefined,
    scaleOut: values["enable-scale-out"] || undefined,
  };
  const requests = {
    imageTokens: values["image-tokens"],
    embeddingDimensions: values["embedding-dimensions"],
    responseStore: values["response-store"],
    generation: values["override-generation-config"],
    requestOrders: values["allow-request-orders"],
  };
  const answers = {
    keepAliveS: values["sse-keep-alive-interval"],
    reasoningField: values["reasoning-field"],
    autoToolChoice: values["enable-auto-tool-choice"],
    toolCallShare: values["tool-call-share"],
    toolHabits: values["tool-arguments"],
    meanReasoningTokens: values["mean-reasoning-tokens"],
    responseRole: values["response-role"],
    fingerprintMode: values["fingerprint-mode"],
    fingerprintValue: values["fingerprint-value"],
    perRequestMetrics: values["enable-per-request-metrics"],
    tokensAsIds: values["return-tokens-as-token-ids"],
  };
  return {
    front: {
      ...given(front),
      apiKeys: values["api-key"] ?? [],
      enableRequestIdHeaders: values["enable-request-id-headers"] ?? false,
      disableFastapiDocs: values["disable-fastapi-docs"] ?? false,
      devMode: false,
    },
    requests: { ...given(requests), maxLogprobs: values["max-logprobs"] ?? 20 },
    answers: {
      ...given(answers),
      streamInterval: values["stream-interval"] ?? 1,
      enablePromptTokensDetails: values["enable-prompt-tokens-details"] ?? false,
      enableForceIncludeUsage: values["enable-force-include-usage"] ?? false,
    },
  };
}

/** Requests are logged from the level info on. */
export function logsConfig(values: ServeValues): LogsConfig {
  const level = values["uvicorn-log-level"] ?? "info";
  const isMute = level === "critical" || level === "error";
  return {
    disableAccessLog: (values["disable-uvicorn-access-log"] ?? false) || isMute || level === "warning",
    disableWarnings: isMute,
    disableLogStats: values["disable-log-stats"] ?? false,
    enableLogRequests: values["enable-log-requests"] ?? false,
  };
}

function dataset(values: ServeValues): TextConfig["dataset"] | undefined {
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

/** Makes the configurations of owners that follow from single options. What was not given stays absent. */
import type { FaultsConfig } from "../../faults/faults-config.ts";
import type { LogsConfig, QueueConfig } from "../../kernel/kernel-config.ts";
import type { CorsConfig, OpenAiConfig } from "../../servers/openai/request/openai-config.ts";
import type { TextConfig } from "../../text/text-config.ts";
import type { Landings, OptionRow, ValueOf } from "./option.ts";
import type { ChosenParsers } from "./parser-options.ts";
import { type OptionName, type ServeValues, serveOptions } from "./serve-options.ts";

const ALL = ["*"];
/** The table that the tool for such files writes. */
const DATASET_TABLE = "llmd";

type Rows = typeof serveOptions;
type IsSound<Row, O extends keyof Landings, M> = M extends keyof Landings[O]
  ? ValueOf<Row> extends Exclude<Landings[O][M], undefined>
    ? true
    : false
  : false;
/** Options whose value does not fit the member where it lands. */
type Misplaced = {
  [N in keyof Rows]: Rows[N] extends { readonly lands: readonly [infer O extends keyof Landings, infer M] }
    ? IsSound<Rows[N], O, M> extends true
      ? never
      : N
    : never;
}[keyof Rows];
/** All rows. This does not compile while an option is misplaced. */
const rows: [Misplaced] extends [never] ? readonly [OptionName, OptionRow][] : Misplaced = Object.entries<OptionRow>(
  serveOptions,
) as [OptionName, OptionRow][];

/** Returns the members of a configuration that get the values of options as they are, by `lands` of the option's row. */
function landed<O extends keyof Landings>(values: ServeValues, owner: O): Partial<Landings[O]> {
  const members = rows.flatMap(([name, { lands }]) =>
    lands?.[0] === owner && values[name] !== undefined ? [[lands[1], values[name]]] : [],
  );
  return Object.fromEntries(members) as Partial<Landings[O]>;
}

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
  const made = given({
    reasoningParser: reasoningFormat,
    toolCallParser: toolFormat,
    dataset: dataset(values),
    echo: values.answers === "echo" ? true : undefined,
    promptedJson: values.answers === "prompted-json" ? true : undefined,
  });
  return { ...landed(values, "text"), ...made, outputTokens };
}

export function faultsConfig(values: ServeValues): FaultsConfig {
  const types = given({
    failureTypes: values["failure-types"]?.length ? values["failure-types"] : undefined,
    faultTypes: values["fault-types"]?.length ? values["fault-types"] : undefined,
  });
  return { ...landed(values, "faults"), ...types };
}

export const queueConfig = (values: ServeValues): QueueConfig => landed(values, "queue");

export function apiConfig(values: ServeValues): OpenAiConfig {
  const made = given({
    cors: cors(values),
    tokenizerInfo: values["enable-tokenizer-info-endpoint"] || undefined,
    scaleOut: values["enable-scale-out"] || undefined,
  });
  return {
    front: {
      ...landed(values, "openai.front"),
      ...made,
      apiKeys: values["api-key"] ?? [],
      enableRequestIdHeaders: values["enable-request-id-headers"] ?? false,
      disableFastapiDocs: values["disable-fastapi-docs"] ?? false,
      devMode: false,
    },
    requests: { ...landed(values, "openai.requests"), maxLogprobs: values["max-logprobs"] ?? 20 },
    answers: {
      ...landed(values, "openai.answers"),
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

/**
 * The parts of `understudy load` that depend on `--backend`: the options that a backend refuses, and the headers with the API
 * key.
 */

import { generates, isTriton, type LoadDialect } from "../../tools/load/requests/dialects.ts";
import type { UsageError } from "../options/given.ts";
import type { LoadValues } from "./load-options.ts";

export const DEFAULT_BACKEND: LoadDialect = "openai-chat";
/** Version of Anthropic's API that the header anthropic-version states. All servers and gateways support this version. */
const ANTHROPIC_VERSION = "2023-06-01";

type Refusals = Readonly<Partial<Record<keyof LoadValues, string>>>;

const NO_FIELD = "whose requests have no such field; --extra-body sends one";
const NOT_CHAT = "whose requests have only one field for it";
const NO_TOKENS = "whose answers have no tokens";
const NO_TRUTH_OF_EMBEDDINGS = "whose requests do not appear in the truth";
const ONE_TURN = "whose requests are not conversations";

/** Options that a backend does not support, each with the end of its error message. */
const REFUSED: Readonly<Partial<Record<LoadDialect, Refusals>>> = {
  "openai-responses": { "min-tokens": NO_FIELD, "legacy-max-tokens": NOT_CHAT },
  "anthropic-messages": { "min-tokens": NO_FIELD, "ignore-eos": NO_FIELD, "legacy-max-tokens": NOT_CHAT },
  "openai-embeddings": {
    ...{ "output-len": NO_TOKENS, "ignore-eos": NO_TOKENS, "min-tokens": NO_TOKENS, temperature: NO_TOKENS },
    "legacy-max-tokens": NO_TOKENS,
    ...{ turns: ONE_TURN, "think-time": ONE_TURN },
    ...{ "check-truth": NO_TRUTH_OF_EMBEDDINGS, "check-truth-log": NO_TRUTH_OF_EMBEDDINGS },
  },
  "triton-grpc": { retries: "which sends each call once", endpoint: "whose paths are fixed" },
};

/** Returns an error for the first option that the backend does not support. Undefined: the backend supports all options. */
export function refusedByBackend(values: LoadValues): UsageError | undefined {
  const { backend = DEFAULT_BACKEND } = values;
  for (const [name, why] of Object.entries(REFUSED[backend] ?? {})) {
    const value = values[name as keyof LoadValues];
    const isOff = value === undefined || value === false || (name === "retries" && value === 0);
    if (!isOff) return { error: `--${name}: not with --backend ${backend}, ${why}` };
  }
  if (isTriton(backend) && values["check-truth"] && values["check-truth-log"] === undefined)
    return {
      error: "--check-truth: a Triton server has the truth only in its --truth-log; use --check-truth-log FILE",
    };
  return generates(backend) ? undefined : refusedWithoutTokens(values, backend);
}

function refusedWithoutTokens(values: LoadValues, backend: LoadDialect): UsageError | undefined {
  if (values["dataset-name"] === "multi_turn")
    return { error: `--dataset-name multi_turn: not with --backend ${backend}, ${ONE_TURN}` };
  const metrics = {
    "percentile-metrics": values["percentile-metrics"] ?? [],
    goodput: Object.keys(values.goodput ?? {}),
    "sweep-until": Object.keys(values["sweep-until"]?.slo ?? {}),
  };
  for (const [name, used] of Object.entries(metrics)) {
    const stray = used.find((metric) => metric !== "e2el");
    if (stray !== undefined)
      return { error: `--${name}: ${stray} not with --backend ${backend}, ${NO_TOKENS}; use e2el` };
  }
  return undefined;
}

/**
 * Returns the user's headers, and the headers of the backend and the API key that the user has not set. Upper and lower case in
 * names are the same.
 */
export function backendHeaders(
  { backend, "api-key": typed, header = {} }: LoadValues,
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const isAnthropic = backend === "anthropic-messages";
  const key = typed ?? (isAnthropic ? env.ANTHROPIC_API_KEY : env.OPENAI_API_KEY);
  const own: Record<string, string> = {
    ...(key ? { Authorization: `Bearer ${key}` } : {}),
    // Anthropic reads the key from x-api-key, vLLM only from Authorization.
    ...(key && isAnthropic ? { "x-api-key": key } : {}),
    ...(isAnthropic ? { "anthropic-version": ANTHROPIC_VERSION } : {}),
  };
  const set = new Set(Object.keys(header).map((name) => name.toLowerCase()));
  return { ...Object.fromEntries(Object.entries(own).filter(([name]) => !set.has(name.toLowerCase()))), ...header };
}

/** Reads options from environment variables. For example, `UNDERSTUDY_MAX_NUM_SEQS` sets --max-num-seqs. */
import { type OptionInput, optionInput, type UsageError, wrongValue } from "./given.ts";
import { lookup, nearNames } from "./lookup.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = "UNDERSTUDY_";

/** Value of --response-store if `VLLM_ENABLE_RESPONSES_API_STORE` is set. vLLM's own store of responses has no limit. */
const STORED_RESPONSES = "10000";

export interface EnvironmentInput {
  readonly given: readonly OptionInput[];
  /** Options that variables of vLLM set, such as `VLLM_API_KEY`. They count only if the option is set nowhere else. */
  readonly fallback: readonly OptionInput[];
  /** Value of vLLM's `VLLM_SERVER_DEV_MODE`. */
  readonly devMode: boolean;
  /** Value of vLLM's `VLLM_ALLOW_RUNTIME_LORA_UPDATING`. */
  readonly runtimeLora: boolean;
  readonly notices: readonly string[];
}

export function environmentName(option: string): string {
  return PREFIX + option.toUpperCase().replaceAll("-", "_");
}

/**
 * Reads all variables. A list is split at its commas, except `VLLM_API_KEY`, which is a single key, as in vLLM. A variable with
 * an unknown name is not an error, because other programs may use the same prefix.
 */
export function fromEnvironment(env: Environment): EnvironmentInput | UsageError {
  const said: OptionInput[] = [];
  const notices: string[] = [];
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || text === undefined) continue;
    const name = variable.slice(PREFIX.length).toLowerCase();
    const found = lookup(name);
    if (!found) {
      const near = nearNames(name).map(environmentName);
      if (near.length > 0)
        notices.push(`${variable} is not an option and has no effect; did you mean ${near.join(" or ")}?`);
    } else if (/^(tcp|udp|sctp):\/\//.test(text)) {
      // If a Kubernetes service is named "understudy", every pod gets a variable such as UNDERSTUDY_PORT=tcp://…
      notices.push(`${variable}=${text} looks like a Kubernetes service address and has no effect`);
    } else if (found.option.arity === "toggle" || found.option.arity === "switch") {
      const value = { true: true, "1": true, false: false, "0": false }[text.toLowerCase()];
      if (value === undefined) return wrongValue(variable, "true, false, 1 or 0", text);
      said.push(optionInput(found, [String(value === found.sets)], variable));
    } else {
      said.push(optionInput(found, found.option.arity === "list" ? text.split(",") : [text], variable));
    }
  }
  const key = env.VLLM_API_KEY;
  const keepAlive = env.VLLM_HTTP_TIMEOUT_KEEP_ALIVE;
  const mode = env.VLLM_SERVER_DEV_MODE ?? "0";
  const stores = env.VLLM_ENABLE_RESPONSES_API_STORE ?? "0";
  const intHashes = env.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES;
  const hashSeed = env.PYTHONHASHSEED;
  if (!/^\s*[+-]?\d+\s*$/.test(mode)) return wrongValue("VLLM_SERVER_DEV_MODE", "0 or 1", mode);
  if (!/^\s*[+-]?\d+\s*$/.test(stores)) return wrongValue("VLLM_ENABLE_RESPONSES_API_STORE", "0 or 1", stores);
  if (intHashes !== undefined && !/^\s*[+-]?\d+\s*$/.test(intHashes))
    return wrongValue("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "0 or 1", intHashes);
  return {
    given: said,
    fallback: [
      ...(key ? [optionInput(lookup("api-key")!, [key], "VLLM_API_KEY")] : []),
      ...(keepAlive ? [optionInput(lookup("timeout-keep-alive")!, [keepAlive], "VLLM_HTTP_TIMEOUT_KEEP_ALIVE")] : []),
      ...(Number(stores) === 0
        ? []
        : [optionInput(lookup("response-store")!, [STORED_RESPONSES], "VLLM_ENABLE_RESPONSES_API_STORE")]),
      ...(intHashes === undefined
        ? []
        : [
            optionInput(
              lookup("kv-events-int-hashes")!,
              [String(Number(intHashes) !== 0)],
              "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES",
            ),
          ]),
      ...(hashSeed ? [optionInput(lookup("kv-events-hash-seed")!, [hashSeed], "PYTHONHASHSEED")] : []),
    ],
    devMode: Number(mode) !== 0,
    runtimeLora: /^\s*(1|true)\s*$/i.test(env.VLLM_ALLOW_RUNTIME_LORA_UPDATING ?? ""),
    notices,
  };
}

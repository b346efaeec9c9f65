/**
 * Reads defaults of sampling from a generation configuration: the model's own, or `--override-generation-config`. Only the fields
 * that vLLM 0.33 reads (`config/model.py`, `get_diff_sampling_param`). Others are ignored.
 */

/** Values for requests that set none. An absent value: vLLM's own default, or no limit. */
export interface SamplingDefaults {
  /** Most output tokens, also for requests that ask for more. */
  readonly maxNewTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
}

type Json = Readonly<Record<string, unknown>>;

const NAMES: Readonly<Record<string, keyof SamplingDefaults>> = {
  max_new_tokens: "maxNewTokens",
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
};
export const SAMPLING_DEFAULTS: readonly string[] = Object.keys(NAMES);
const WHOLE = ["max_new_tokens", "top_k"];

/** Combines configurations. Later ones win, and a null there removes an earlier value. Ignores values that are not numbers. */
export function samplingDefaults(...layers: readonly (Json | undefined)[]): SamplingDefaults {
  const all: Json = Object.assign({}, ...layers);
  const found = Object.entries(NAMES).filter(([name]) => fits(name, all[name]));
  return Object.fromEntries(found.map(([name, key]) => [key, all[name]]));
}

/** Reports whether vLLM accepts each value. vLLM itself notices a wrong one only with the first request. */
export function soundDefaults(config: Json): boolean {
  return SAMPLING_DEFAULTS.every((name) => (config[name] ?? null) === null || fits(name, config[name]));
}

function fits(name: string, value: unknown): boolean {
  return WHOLE.includes(name) ? Number.isSafeInteger(value) : typeof value === "number";
}

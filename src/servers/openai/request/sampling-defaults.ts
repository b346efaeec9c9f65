/**
 * What do requests sample with that do not say? The fields of a generation configuration that vLLM 0.33 takes
 * (`config/model.py`, `get_diff_sampling_param`), the model's own or `--override-generation-config`; it passes over all others.
 */

/** Each absent: vLLM's own default, or no limit. */
export interface SamplingDefaults {
  /** The most output tokens, also of requests that ask for more. */
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

/** Later layers win; a null there takes back what an earlier one says. What is no number is passed over. */
export function samplingDefaults(...layers: readonly (Json | undefined)[]): SamplingDefaults {
  const all: Json = Object.assign({}, ...layers);
  const found = Object.entries(NAMES).filter(([name]) => fits(name, all[name]));
  return Object.fromEntries(found.map(([name, key]) => [key, all[name]]));
}

/** Is each of them what vLLM takes? It notices with the first request only. A null says nothing. */
export function soundDefaults(given: Json): boolean {
  return SAMPLING_DEFAULTS.every((name) => (given[name] ?? null) === null || fits(name, given[name]));
}

function fits(name: string, value: unknown): boolean {
  return WHOLE.includes(name) ? Number.isSafeInteger(value) : typeof value === "number";
}

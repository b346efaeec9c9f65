/**
 * Reads the sampling parameters of a request to the vLLM backend: from the tensor, or else from the request's parameters.
 * Source: `TritonSamplingParams.from_dict` in `vllm_backend_utils.py` (January 2026), which also accepts numbers as strings.
 * Fields, limits and messages are those of `sampling_params.py` in vLLM 0.33.
 */

import type { Structure } from "../../../text/grammar/structure.ts";
import { isGreedy, PYTHON_INT, tooManySequences } from "../../openai/request/sampling.ts";
import { PythonJsonError, parsePython, placeIn } from "../../pydantic/json.ts";
import { reprString } from "../../pydantic/repr.ts";
import { toPlain, typeName } from "../../pydantic/value.ts";
import type { ModelRequest } from "../behaviours/behaviour.ts";
import { firstText } from "../behaviours/values.ts";
import { fromBytesText } from "../tensors/datatypes.ts";
import type { LlmDeps } from "./around.ts";
import { LIST_WORDS_MOST } from "./processing.ts";

/** vLLM's default of `max_tokens`. */
const TOKENS = 16;
/** vLLM's default of `--max-logprobs`. */
const LOGPROBS_MOST = 20;

export type VllmSampling = ReturnType<typeof vllmSampling>;

/** Sampling parameters as parsed from JSON. */
export type SamplingParameters = Readonly<Record<string, unknown>>;

/** An exception of Python. `execute` fails with its name and message. */
class PythonException extends Error {
  constructor(
    override readonly name: string,
    message: string,
  ) {
    super(message);
  }
}

/** Most UTF-16 units of the JSON text, because it is parsed in one go. The real backend has no limit. */
const SAMPLING_TEXT_MOST = 262_144;

/**
 * Parses the parameters as `_verify_loras` in `model.py` does. Throws if they are not a JSON object, which fails the whole
 * batch.
 */
export function samplingParametersOf(request: ModelRequest): SamplingParameters {
  const tensor = request.inputs.has("sampling_parameters");
  const text = fromBytesText(tensor ? firstText(request, "sampling_parameters") : request.parameters);
  if (text.length > SAMPLING_TEXT_MOST)
    throw new PythonException(
      "ValueError",
      `sampling parameters have ${text.length} characters: a stand-in takes ${SAMPLING_TEXT_MOST}`,
    );
  const parameters = jsonIn(text);
  if (Array.isArray(parameters)) throw new PythonException("TypeError", "pop expected at most 1 argument, got 2");
  if (typeof parameters === "object" && parameters !== null) return parameters as SamplingParameters;
  throw new PythonException("AttributeError", `'${typeName(parameters as number)}' object has no attribute 'pop'`);
}

/**
 * Parses like `json.loads`. Tries JavaScript's parser first, because it is faster and accepts most texts. Throws a
 * `PythonException`.
 */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return toPlain(parsePython(text));
    } catch (error) {
      if (!(error instanceof PythonJsonError)) throw new PythonException("ValueError", "the JSON cannot be read");
      throw new PythonException("JSONDecodeError", `${error.message}: ${placeIn(text, error.position)}`);
    }
  }
}

const toInteger = (value: unknown) => {
  const text = typeof value === "string";
  const number = text && !PYTHON_INT.test(value) ? Number.NaN : numberIn(value);
  if (!Number.isFinite(number)) throw new Error(`int() does not take ${reprOf(value)}`);
  return Math.trunc(number);
};
const toFloat = (value: unknown) => {
  const number = numberIn(value);
  if (Number.isNaN(number) && !/^\s*[+-]?nan\s*$/i.test(String(value)))
    throw new Error(`float() does not take ${reprOf(value)}`);
  return number;
};
const reprOf = (value: unknown) => (typeof value === "string" ? reprString(value) : JSON.stringify(value));

/** Converts to a number. Booleans become 0 and 1; other values that are not numbers become NaN. */
function numberIn(value: unknown): number {
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  if (typeof value !== "string" || value.trim() === "") return Number.NaN;
  const infinite = /^\s*([+-]?)inf(?:inity)?\s*$/i.exec(value);
  if (infinite !== null) return infinite[1] === "-" ? -Infinity : Infinity;
  return /^\s*[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value)
    ? Number(value.replaceAll("_", ""))
    : Number.NaN;
}

/** Converts like Python's `bool(value)`: every string is true except the empty one. */
const toBoolean = (value: unknown) =>
  Array.isArray(value)
    ? value.length > 0
    : typeof value === "object" && value !== null
      ? Object.keys(value).length > 0
      : Boolean(value);
const unchanged = (value: unknown) => value;

type Conversion = (value: unknown) => unknown;
const each = (convert: Conversion, ...names: readonly string[]) => names.map((name) => [name, convert] as const);

/** Fields of `SamplingParams` and the conversion of each value. */
const FIELDS: ReadonlyMap<string, Conversion> = new Map([
  ...each(toInteger, "n", "top_k", "max_tokens", "min_tokens", "seed", "logprobs", "prompt_logprobs"),
  ...each(toInteger, "stream_interval", "thinking_token_budget", "output_text_buffer_length"),
  ...each(toInteger, "routed_experts_prompt_start"),
  ...each(toFloat, "presence_penalty", "frequency_penalty", "repetition_penalty", "temperature", "top_p", "min_p"),
  ...each(toBoolean, "ignore_eos", "flat_logprobs", "detokenize", "skip_special_tokens"),
  ...each(toBoolean, "spaces_between_special_tokens", "include_stop_str_in_output", "skip_clone"),
  ...each(structureIn, "structured_outputs"),
  ...each(unchanged, "stop", "stop_token_ids", "logprob_token_ids", "output_kind", "logit_bias", "allowed_token_ids"),
  ...each(unchanged, "extra_args", "bad_words", "skip_reading_prefix_cache", "repetition_detection", "lora_name"),
]);

/**
 * Checks and converts the parameters. Throws the error that a client of this version sees: 2.73 writes the real reason only to
 * the log.
 */
export function samplingOf(
  parameters: SamplingParameters,
  model: string,
  { losesSamplingErrors, log }: Pick<LlmDeps, "losesSamplingErrors" | "log">,
): VllmSampling {
  try {
    return vllmSampling(parameters);
  } catch (error) {
    if (!losesSamplingErrors || !(error instanceof Error)) throw error;
    log(`${model}: sampling parameters are refused: ${error.message}`);
    throw new Error("'NoneType' object has no attribute 'lora_name'");
  }
}

/** Checks and converts the parameters. Throws with the message of vLLM or Python. */
function vllmSampling(parameters: SamplingParameters) {
  const made: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parameters)) made[name] = FIELDS.get(name)?.(value);
  const unknown = Object.keys(parameters).find((name) => !FIELDS.has(name));
  if (unknown !== undefined) throw new Error(`Unexpected keyword argument '${unknown}'`);
  const number = (name: string, otherwise: number) => (made[name] as number | undefined) ?? otherwise;
  const flag = (name: string, otherwise: boolean) => (made[name] as boolean | undefined) ?? otherwise;
  const n = number("n", 1);
  const maxTokens = number("max_tokens", TOKENS);
  const minTokens = number("min_tokens", 0);
  const temperature = number("temperature", 1);
  const wrong =
    wrongCount(n) ?? wrongShares(number, temperature) ?? wrongLengths(maxTokens, minTokens) ?? wrongLogprobs(made);
  if (wrong !== undefined) throw new Error(wrong);
  const stop = stopsIn(made.stop, flag("detokenize", true));
  if (n > 1 && isGreedy(temperature)) throw new Error(`n must be 1 when using greedy sampling, got ${n}.`);
  const seed = number("seed", -1);
  const ignoreEos = flag("ignore_eos", false);
  return {
    n,
    limits: { maxTokens, minTokens, ignoreEos, stopTokenIds: idsIn(made.stop_token_ids) },
    seed: seed === -1 ? null : seed,
    temperature,
    stop,
    badWords: wordsIn(made.bad_words),
    includeStop: flag("include_stop_str_in_output", false),
    skipSpecial: flag("skip_special_tokens", true),
    /** Number of candidates in addition to the sampled token. Null: no log probabilities. */
    logprobs: (made.logprobs as number | undefined) ?? null,
    structure: (made.structured_outputs as Structure | null | undefined) ?? null,
    lora: (made.lora_name ?? null) === null ? null : String(made.lora_name),
  };
}

function wrongCount(n: number): string | undefined {
  return n < 1 ? `n must be at least 1, got ${n}.` : (tooManySequences(n, "n") ?? undefined);
}

/** Checks penalties, temperature, `top_p`, `top_k` and `min_p`. */
function wrongShares(number: (name: string, otherwise: number) => number, temperature: number): string | undefined {
  const named = (name: string, value: number) => ` (parameter=${name}, value=${value})`;
  for (const name of ["presence_penalty", "frequency_penalty"]) {
    const penalty = number(name, 0);
    if (!(penalty >= -2 && penalty <= 2)) return `${name} must be in [-2, 2], got ${penalty}.`;
  }
  const repetition = number("repetition_penalty", 1);
  if (!Number.isFinite(repetition)) return `repetition_penalty must be a finite number, got ${repetition}.`;
  if (repetition <= 0) return `repetition_penalty must be greater than zero, got ${repetition}.`;
  const hot = !Number.isFinite(temperature)
    ? "a finite number"
    : temperature < 0
      ? "non-negative"
      : temperature > 2
        ? "in [0, 2]"
        : null;
  if (hot !== null) return `temperature must be ${hot}, got ${temperature}.${named("temperature", temperature)}`;
  const [topP, topK, minP] = [number("top_p", 1), number("top_k", 0), number("min_p", 0)];
  if (!(topP > 0 && topP <= 1)) return `top_p must be in (0, 1], got ${topP}.${named("top_p", topP)}`;
  if (topK < -1) return `top_k must be 0 (disable), or at least 1, got ${topK}.`;
  return minP >= 0 && minP <= 1 ? undefined : `min_p must be in [0, 1], got ${minP}.`;
}

function wrongLengths(most: number, least: number): string | undefined {
  if (most < 1) return `max_tokens must be at least 1, got ${most}. (parameter=max_tokens, value=${most})`;
  if (least < 0) return `min_tokens must be greater than or equal to 0, got ${least}.`;
  return least > most ? `min_tokens must be less than or equal to max_tokens=${most}, got ${least}.` : undefined;
}

function wrongLogprobs(made: SamplingParameters): string | undefined {
  for (const name of ["logprobs", "prompt_logprobs"]) {
    const count = made[name] as number | undefined;
    if (count !== undefined && count < -1)
      return `${name} must be non-negative or -1, got ${count}. (parameter=${name}, value=${count})`;
  }
  return undefined;
}

function stopsIn(value: unknown, detokenizes: boolean): readonly string[] {
  const stop = typeof value === "string" ? [value] : wordsIn(value);
  if (stop.includes("")) throw new Error("stop cannot contain an empty string.");
  if (stop.length > 0 && !detokenizes)
    throw new Error("stop strings are only supported when detokenize is True. Set detokenize=True to use stop.");
  return stop;
}

/** Returns a list of strings. Null counts as an empty list. */
function wordsIn(value: unknown): readonly string[] {
  const words = value ?? [];
  if (!Array.isArray(words) || words.some((word) => typeof word !== "string"))
    throw new Error(`${reprOf(value)} is no list of texts`);
  if (words.length > LIST_WORDS_MOST)
    throw new Error(`a list has ${words.length} words: a stand-in takes ${LIST_WORDS_MOST}`);
  return words;
}

function idsIn(value: unknown): readonly number[] {
  const ids = value ?? [];
  if (!Array.isArray(ids) || !ids.every(Number.isInteger))
    throw new Error(`stop_token_ids must contain only integers, got ${reprOf(value)}.`);
  return ids;
}

/** Returns the engine's refusal if the request asks for too many log probabilities, else null. */
export function tooManyLogprobs({ logprobs }: VllmSampling, vocabularySize: number): string | null {
  const requested = logprobs === -1 ? vocabularySize : (logprobs ?? 0);
  if (requested <= LOGPROBS_MOST) return null;
  return `Requested sample logprobs of ${requested}, which is greater than max allowed: ${LOGPROBS_MOST} (parameter=logprobs, value=${requested})`;
}

const KINDS = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"] as const;
const FORMAT_OPTIONS = [
  "disable_any_whitespace",
  "disable_additional_properties",
  "whitespace_pattern",
  "_backend",
  "_backend_was_auto",
];

/** Parses the JSON text of `StructuredOutputsParams`, which contains exactly one constraint. */
function structureIn(value: unknown): Structure | null {
  if (typeof value !== "string")
    throw new Error(`the JSON object must be str, bytes or bytearray, not ${typeName(value as number)}`);
  const read = jsonIn(value);
  if (typeof read !== "object" || read === null || Array.isArray(read))
    throw new Error("argument after ** must be a mapping");
  const constraint = read as SamplingParameters;
  const unknown = Object.keys(constraint).find(
    (name) => !FORMAT_OPTIONS.includes(name) && !KINDS.some((kind) => kind === name),
  );
  if (unknown !== undefined) throw new Error(`Unexpected keyword argument '${unknown}'`);
  const kinds = KINDS.filter((kind) => (constraint[kind] ?? null) !== null);
  if (kinds.length !== 1) throw new Error(`structured_outputs has ${kinds.length} kinds of constraints, not one`);
  const { json, regex, choice, grammar, json_object: object } = constraint;
  if ((json ?? null) !== null) return { kind: "json", schema: typeof json === "string" ? json : JSON.stringify(json) };
  if (typeof regex === "string") return { kind: "regex", pattern: regex };
  if (Array.isArray(choice)) return { kind: "choice", choices: choice.map(String) };
  if (typeof grammar === "string") return { kind: "grammar", grammar };
  return object === true ? { kind: "object" } : null;
}

/**
 * What do the sampling parameters of a request to the vLLM backend say? The tensor, else all parameters of the request. Numbers
 * may be texts; names that nobody reads say nothing (`vllm_backend_utils.py`). Words of vLLM 0.33's `sampling_params.py`.
 */
import { isGreedy } from "../../generation/sampling.ts";
import type { ModelRequest } from "../../repository/behaviours/behaviour.ts";
import { firstText } from "../../repository/behaviours/values.ts";
import { fromBytesText } from "../../repository/tensors/datatypes.ts";
import type { Structure } from "../../structured/structure.ts";

export interface VllmSampling {
  readonly n: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly seed: number | null;
  readonly temperature: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly badWords: readonly string[];
  readonly includeStop: boolean;
  readonly skipSpecial: boolean;
  /** Candidates beside the sampled token; null: no log probabilities. */
  readonly logprobs: number | null;
  readonly structure: Structure | null;
  readonly lora: string | null;
}

/** vLLM's own default of `max_tokens`. */
const TOKENS = 16;
/** vLLM's `--max-logprobs`. */
const LOGPROBS_MOST = 20;

type Said = Readonly<Record<string, unknown>>;

/** Throws with what vLLM says. */
export function vllmSampling(request: ModelRequest, vocabularySize: number): VllmSampling {
  const tensor = request.inputs.has("sampling_parameters");
  const text = tensor ? firstText(request, "sampling_parameters") : request.parameters;
  const said: unknown = JSON.parse(fromBytesText(text));
  if (typeof said !== "object" || said === null) throw new Error("sampling parameters are a JSON object");
  const given = said as Said;
  const number = numbersOf(given);
  const n = Math.trunc(number("n", 1, 1, "at least 1"));
  const maxTokens = Math.trunc(number("max_tokens", 1, TOKENS, "at least 1", true));
  const minTokens = Math.trunc(number("min_tokens", 0, 0, "greater than or equal to 0"));
  if (minTokens > maxTokens)
    throw new Error(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`);
  const temperature = number("temperature", 0, 1, "non-negative", true);
  if (n > 1 && isGreedy(temperature)) throw new Error(`n must be 1 when using greedy sampling, got ${n}.`);
  return {
    n,
    maxTokens,
    minTokens,
    ignoreEos: flag(given, "ignore_eos", false),
    seed: (given.seed ?? null) === null ? null : number("seed", -Infinity, 0, "a number"),
    temperature,
    stop: list(given.stop).map(String).filter(Boolean),
    stopTokenIds: list(given.stop_token_ids).map(Number),
    badWords: list(given.bad_words).map(String),
    includeStop: flag(given, "include_stop_str_in_output", false),
    skipSpecial: flag(given, "skip_special_tokens", true),
    logprobs: logprobsOf(given, number, vocabularySize),
    structure: structureOf(given),
    lora: (given.lora_name ?? null) === null ? null : String(given.lora_name),
  };
}

type ReadNumber = (name: string, least: number, otherwise: number, wrong: string, named?: boolean) => number;

const numbersOf =
  (said: Said): ReadNumber =>
  (name, least, otherwise, wrong, named = false) => {
    const value = Number(said[name] ?? otherwise);
    const suffix = named ? ` (parameter=${name}, value=${value})` : "";
    if (!(value >= least)) throw new Error(`${name} must be ${wrong}, got ${value}.${suffix}`);
    return value;
  };

const flag = (said: Said, name: string, otherwise: boolean): boolean =>
  said[name] === undefined ? otherwise : said[name] === true || said[name] === 1 || said[name] === "true";

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value ?? []].flat());

/** A number of candidates, or nothing where it is false; -1 is the whole vocabulary. */
function logprobsOf(said: Said, number: ReadNumber, vocabularySize: number): number | null {
  const given = said.logprobs ?? null;
  if (given === null || given === false) return null;
  const count = given === true ? 0 : Math.trunc(number("logprobs", -1, 0, "non-negative or -1", true));
  const asked = count === -1 ? vocabularySize : count;
  if (asked > LOGPROBS_MOST)
    throw new Error(
      `Requested sample logprobs of ${asked}, which is greater than max allowed: ${LOGPROBS_MOST} (parameter=logprobs, value=${asked})`,
    );
  return count;
}

/** `guided_decoding` is the older name; each may be a JSON text. */
function structureOf(said: Said): Structure | null {
  const given = said.structured_outputs ?? said.guided_decoding ?? null;
  const read: unknown = typeof given === "string" ? JSON.parse(given) : given;
  if (typeof read !== "object" || read === null) return null;
  const { json, regex, choice, grammar, json_object: object } = read as Said;
  if ((json ?? null) !== null) return { kind: "json", schema: typeof json === "string" ? json : JSON.stringify(json) };
  if (typeof regex === "string") return { kind: "regex", pattern: regex };
  if (Array.isArray(choice)) return { kind: "choice", choices: choice.map(String) };
  if (typeof grammar === "string") return { kind: "grammar", grammar };
  return object === true ? { kind: "object" } : null;
}

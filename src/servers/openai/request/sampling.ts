/**
 * Checks the values of a request at the three times at which vLLM 0.33 does, and finds the seeds of its choices.
 *
 * 1. When the body is read: lengths that cannot fit the context (`renderers/params.py`, TokenizeParams;
 *    `entrypoints/serve/utils/api_utils.py`, get_max_tokens).
 * 2. When the prompt is known: `checkPrompt` with `checkParameters` (`sampling_params.py`). A plain 400, also for a stream.
 * 3. When the engine takes the request: `checkSampling` (`v1/engine/input_processor.py`). In a stream, after its head.
 *
 * A seed is that of the request. Otherwise, it follows from the prompt under greedy decoding, and is drawn in all other cases.
 */

import { byRuns, type Pieces } from "../../../base/pieces.ts";
import { greedySeed, mixedIn } from "../../../text/answers/answers.ts";
import { type ErrorAnswer, errorAnswer } from "../../pydantic/refusals.ts";
import { repr, reprFloat } from "../../pydantic/repr.ts";
import { type Int, toInt } from "../../pydantic/value.ts";
import { badRequest, validationError } from "./errors.ts";
import { keptTokens } from "./prompts.ts";
import type { CommonRequest, GenerationRequest, Limits, SamplingFields } from "./request.ts";

/** Default of VLLM_MAX_N_SEQUENCES. */
const MAX_SEQUENCES = 16384;
/** Below this temperature, decoding takes the most likely token. */
const GREEDY_BELOW = 1e-5;
const LOWEST_TEMPERATURE = 1e-2;

/** Checks what `SamplingParams.__post_init__` checks, in its order. `checkPrompt` calls it. */
function checkParameters(request: GenerationRequest, maxTokens: Int): ErrorAnswer | null {
  const { sampling } = request;
  if (sampling.beamSearch) return checkSequences(sampling.n, "beam_width");
  if (sampling.constraintRefusal !== null) return sampling.constraintRefusal;
  if (sampling.biasKeysError !== null) return sampling.biasKeysError;
  const sequences = checkSequences(sampling.n, "n");
  if (sequences !== null) return sequences;
  if (sampling.extraArgsTooLarge)
    return validationError("extra_args integers must be between -2**63 and 2**64 - 1.", "extra_args");
  return checkRanges(request) ?? checkLengths(request, maxTokens) ?? checkWords(request);
}

function checkSequences(n: Int, name: string): ErrorAnswer | null {
  if (n < 1) return badRequest(`${name} must be at least 1, got ${n}.`);
  const tooMany = tooManySequences(n, name);
  return tooMany === null ? null : badRequest(tooMany);
}

/** Returns vLLM's error for too many sequences, or null. */
export function tooManySequences(n: Int, name: string): string | null {
  if (n <= MAX_SEQUENCES) return null;
  return `${name} must be at most ${MAX_SEQUENCES}, got ${n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable.`;
}

function checkRanges({ sampling, temperature }: GenerationRequest): ErrorAnswer | null {
  const { presencePenalty, frequencyPenalty, repetitionPenalty, topP, topK, minP } = sampling;
  if (!(presencePenalty >= -2 && presencePenalty <= 2))
    return badRequest(`presence_penalty must be in [-2, 2], got ${reprFloat(presencePenalty)}.`);
  if (!(frequencyPenalty >= -2 && frequencyPenalty <= 2))
    return badRequest(`frequency_penalty must be in [-2, 2], got ${reprFloat(frequencyPenalty)}.`);
  if (!Number.isFinite(repetitionPenalty))
    return badRequest(`repetition_penalty must be a finite number, got ${reprFloat(repetitionPenalty)}.`);
  if (repetitionPenalty <= 0)
    return badRequest(`repetition_penalty must be greater than zero, got ${reprFloat(repetitionPenalty)}.`);
  const wrong = (what: string) => {
    const shown = reprFloat(temperature);
    return validationError(`temperature must be ${what}, got ${shown}.`, "temperature", shown);
  };
  if (!Number.isFinite(temperature)) return wrong("a finite number");
  if (temperature < 0) return wrong("non-negative");
  if (temperature > 2) return wrong("in [0, 2]");
  if (!(topP > 0 && topP <= 1))
    return validationError(`top_p must be in (0, 1], got ${reprFloat(topP)}.`, "top_p", reprFloat(topP));
  if (topK < -1) return badRequest(`top_k must be 0 (disable), or at least 1, got ${topK}.`);
  if (!(minP >= 0 && minP <= 1)) return badRequest(`min_p must be in [0, 1], got ${reprFloat(minP)}.`);
  return null;
}

function checkLengths({ sampling }: GenerationRequest, maxTokens: Int): ErrorAnswer | null {
  const { minTokens } = sampling;
  if (maxTokens < 1)
    return validationError(`max_tokens must be at least 1, got ${maxTokens}.`, "max_tokens", String(maxTokens));
  if (minTokens < 0) return badRequest(`min_tokens must be greater than or equal to 0, got ${minTokens}.`);
  if (minTokens > maxTokens)
    return badRequest(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`);
  return null;
}

function checkWords({ sampling, stop, temperature }: GenerationRequest): ErrorAnswer | null {
  if (stop.includes("")) return badRequest("stop cannot contain an empty string.");
  if (sampling.badWords.list.includes(""))
    return badRequest(`bad_words cannot contain an empty string. Got bad_words=${shownWords(sampling.badWords)}`);
  if (isGreedy(temperature) && sampling.n > 1)
    return badRequest(`n must be 1 when using greedy sampling, got ${sampling.n}.`);
  return null;
}

/** Returns all bad words, each once, as Python prints them. */
export function shownWords({ list, shown }: SamplingFields["badWords"]): string {
  return shown ?? repr([...new Set(list)]);
}

/** Raises temperatures between 0 and 0.01 to 0.01, as vLLM does. */
export function usedTemperature(temperature: number): number {
  return temperature > 0 ? Math.max(temperature, LOWEST_TEMPERATURE) : temperature;
}

/** Reports whether decoding takes the most likely tokens, so that the prompt alone decides the answer. */
export function isGreedy(temperature: number): boolean {
  return usedTemperature(temperature) < GREEDY_BELOW;
}

/** Matches texts that Python's `int(text)` accepts. */
export const PYTHON_INT = /^\s*[+-]?\d+(?:_\d+)*\s*$/;

/**
 * Returns the refusal of the engine, or null: log probabilities above `--max-logprobs`, token ids outside the vocabulary,
 * grammars. Call it for each prompt after `checkPrompt`. `promptTokens`: length of that prompt. `rank`: refusal of the rank that
 * a header names. `idsError`: result of `checkIds`, for the first prompt. The refusal is a plain 400, but in a stream vLLM has
 * sent the head already: status 200, one frame with the error, then `data: [DONE]`.
 */
export function checkSampling(
  request: GenerationRequest,
  limits: Limits,
  promptTokens = Number.POSITIVE_INFINITY,
  rank: ErrorAnswer | null = null,
  idsError: ErrorAnswer | null = null,
): ErrorAnswer | null {
  return (
    checkLogprobs(request, limits) ??
    request.sampling.idsError ??
    checkEngineFeatures(request, limits) ??
    rank ??
    (promptTokens === 0 ? emptyPrompt : idsError) ??
    checkRoutedExperts(request, promptTokens) ??
    (request.sampling.tooLargeForEngine ? unserializable : null)
  );
}

function checkLogprobs({ sampling }: GenerationRequest, limits: Limits): ErrorAnswer | null {
  if (sampling.logprobs === null && sampling.logprobTokenIds === null && sampling.promptLogprobs === null) return null;
  const size = limits.vocabularySize;
  const most = limits.maxLogprobs === -1 ? size : limits.maxLogprobs;
  const tooMany = (what: string, name: string, requested: Int | null): ErrorAnswer | null => {
    const count = requested === -1 ? size : requested;
    if (count === null || count <= most) return null;
    const message = `Requested ${what} logprobs of ${count}, which is greater than max allowed: ${most}`;
    return validationError(message, name, String(count));
  };
  const sample = tooMany("sample", "logprobs", sampling.logprobs);
  if (sample !== null) return sample;
  return sampling.logprobIdsError ?? tooMany("prompt", "prompt_logprobs", sampling.promptLogprobs);
}

/** Returns the engine's refusal of ids outside the vocabulary, or null. `size`: number of its tokens. */
export function outside(name: string, ids: Iterable<Int>, size: number): ErrorAnswer | null {
  const wrong: Int[] = [];
  for (const id of ids) if (id < 0 || id >= size) wrong.push(id);
  return wrong.length === 0 ? null : outsideError(name, repr(wrong), size);
}

/** Returns the refusal of ids outside the vocabulary. `shown`: these ids as Python prints a list. */
export function outsideError(name: string, shown: string, size: number): ErrorAnswer {
  const message = `token_id(s) ${shown} in ${name} contain out-of-vocab token ids. Vocabulary size: ${size}`;
  return validationError(message, name, shown);
}

function checkEngineFeatures({ sampling }: GenerationRequest, { reasoning }: Limits): ErrorAnswer | null {
  if (sampling.constraintError !== null) return badRequest(sampling.constraintError);
  if (sampling.thinkingTokenBudget === null || reasoning !== undefined) return null;
  return badRequest(
    "thinking_token_budget is set but reasoning_config is not configured. " +
      "Please set --reasoning-parser and/or --reasoning-config to use thinking_token_budget.",
  );
}

/** The engine's refusal of a prompt without tokens, perhaps after `truncate_prompt_tokens`. */
export const emptyPrompt = badRequest("The decoder prompt cannot be empty");

/** Returns the engine's refusal of prompts of token ids, or null. */
export function* checkIds(
  request: GenerationRequest,
  limits: Pick<Limits, "vocabularySize">,
): Pieces<ErrorAnswer | null> {
  if (request.kind === "chat") return null;
  for (const prompt of request.prompts) {
    if (typeof prompt === "string") continue;
    if (prompt.length === 0) return emptyPrompt;
    const unknown = yield* unknownId(prompt, request.sampling.oversizedTokenId, limits);
    if (unknown !== null) return unknown;
  }
  return null;
}

/** Returns the refusal of a prompt with an id outside the vocabulary, or null. `oversized`: an id with more than 32 bits. */
export function* unknownId(
  ids: Uint32Array,
  oversized: Int | null,
  { vocabularySize }: Pick<Limits, "vocabularySize">,
): Pieces<ErrorAnswer | null> {
  let largest = 0;
  yield* byRuns(ids.length, (from, to) => {
    largest = Math.max(largest, largestOf(ids, from, to));
  });
  return largest < vocabularySize ? null : badRequest(`Token id ${oversized ?? largest} is out of vocabulary`);
}

/** Returns the largest id of a range. A plain loop, because an iterator is slow until it is compiled. */
function largestOf(ids: Uint32Array, from: number, to: number): number {
  let largest = 0;
  for (let i = from; i < to; i++) if (ids[i]! > largest) largest = ids[i]!;
  return largest;
}

/** The answer to an integer that MessagePack cannot carry. Python's exception has no text. */
const unserializable = errorAnswer("", "InternalServerError", null, 500);

function checkRoutedExperts({ sampling }: GenerationRequest, promptTokens: number): ErrorAnswer | null {
  const start = sampling.routedExpertsPromptStart;
  if (start <= promptTokens) return null;
  return validationError(
    `routed_experts_prompt_start must be between 0 and the prompt length (${promptTokens}), inclusive.`,
    "routed_experts_prompt_start",
    String(start),
  );
}

/** Reads an integer from a header like Python's `int(text)`. Null: the header is absent or not an integer. */
export function headerInt(header: string | null): Int | null {
  if (header === null || !PYTHON_INT.test(header)) return null;
  return toInt(BigInt(header.trim().replace(/[_+]/g, "")));
}

/** Returns the refusal of the rank in the header `X-data-parallel-rank`, or null. Ignores a text that is not an integer. */
export function checkDataParallelRank(header: string | null, ranks: number): ErrorAnswer | null {
  const rank = headerInt(header);
  if (rank === null) return null;
  if (rank >= 0 && rank < ranks) return null;
  return errorAnswer(`data_parallel_rank ${rank} is out of range [0, ${ranks}).`, "BadRequestError", null, 400);
}

/** Returns the refusal of lengths that cannot fit the context with any prompt, or null. */
export function checkContext(sampling: SamplingFields, limits: Limits): ErrorAnswer | null {
  const { maxTokens, maxTokensParam, truncatePromptTokens } = sampling;
  const most = limits.maxModelLen;
  if (maxTokens !== null && maxTokens > most)
    return validationError(
      `${maxTokensParam}=${maxTokens} cannot be greater than max_model_len=${most}. Please request fewer output tokens.`,
      maxTokensParam,
      String(maxTokens),
    );
  if (truncatePromptTokens !== null && truncatePromptTokens > most)
    return validationError(
      `truncate_prompt_tokens=${truncatePromptTokens} cannot be greater than max_model_len = ${most}. Please request a smaller truncation size.`,
      "truncate_prompt_tokens",
      String(truncatePromptTokens),
    );
  return null;
}

/**
 * Checks the length of a tokenized prompt, and then all that vLLM checks when it makes the sampling parameters. Returns the most
 * output tokens, silently reduced to the rest of the context. `promptTokens`: length before or after truncation. `fromText`: the
 * prompt was text, whose tokens vLLM counts only up to one more than the context holds.
 */
export function checkPrompt(
  request: GenerationRequest,
  promptTokens: number,
  fromText: boolean,
  limits: Limits,
): { readonly maxTokens: number } | { readonly error: ErrorAnswer } {
  const refused = limits.refusesPrompt?.(promptTokens) ?? null;
  if (refused !== null) return { error: refused };
  const most = limits.maxModelLen;
  const kept = Math.min(promptTokens, keptTokens(request, limits));
  const count = fromText ? Math.min(kept, most + 1) : kept;
  if (count > most) return { error: promptTooLong(count, most) };
  const requested = request.sampling.maxTokens;
  const rest = Math.min(most - count, limits.maxNewTokens ?? most);
  let maxTokens: Int = requested === null || requested > rest ? rest : requested;
  // A request for the echo alone generates one token, which is dropped.
  if (request.kind === "completion" && request.echo && requested === 0) maxTokens = 1;
  const error = checkParameters(request, maxTokens);
  return error === null ? { maxTokens: Number(maxTokens) } : { error };
}

export function promptTooLong(count: number, most: number): ErrorAnswer {
  const qualifier = count === most + 1 ? "at least " : "";
  return validationError(
    `This model's maximum context length is ${most} tokens. However, your prompt contains ${qualifier}${count} input tokens, ` +
      "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
    "input_tokens",
    String(count),
  );
}

type SeedFields = Pick<CommonRequest, "seed" | "temperature">;

/** Reports whether the seed is a hash of all ids of the prompt, which takes time for a long one. */
export const isByPrompt = ({ seed, temperature }: SeedFields): boolean => seed === null && isGreedy(temperature);

/** Returns the seed of the first choice of a prompt, an integer of 32 bits. `next` draws one. */
export function seedOf(fields: SeedFields, promptIds: Uint32Array, next: () => number): number {
  if (fields.seed !== null) return fold(fields.seed);
  return isByPrompt(fields) ? greedySeed(promptIds) : next();
}

function* greedySeedPieces(promptIds: Uint32Array): Pieces<number> {
  let seed = promptIds.length;
  yield* byRuns(promptIds.length, (from, to) => {
    seed = mixedIn(seed, promptIds, from, to);
  });
  return seed;
}

/** Returns the seeds of several prompts, in pieces because these may be long. */
export function* seedPieces(fields: SeedFields, prompts: readonly Uint32Array[], next: () => number): Pieces<number[]> {
  const seeds: number[] = [];
  for (const ids of prompts) seeds.push(isByPrompt(fields) ? yield* greedySeedPieces(ids) : seedOf(fields, ids, next));
  return seeds;
}

/** Returns the seed of a choice, counted upwards from the seed of its prompt. */
export function choiceSeed(seed: number, choice: number): number {
  return (seed + choice) >>> 0;
}

export function choiceSeeds(seed: number, n: number): number[] {
  return Array.from({ length: n }, (_, choice) => choiceSeed(seed, choice));
}

/** Folds a seed of 64 bits into 32. */
function fold(seed: number): number {
  return (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
}

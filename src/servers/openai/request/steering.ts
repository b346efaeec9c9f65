/**
 * Finds the tokens that a request forces or forbids by `allowed_token_ids`, `logit_bias` or `bad_words`. There are no logits: a
 * bias of 100 leaves only the tokens that have it, a bias of -100 removes its token, and values in between have no effect. As
 * in vLLM 0.33, `sampling_params.py` (`from_optional`, `update_from_tokenizer`).
 */

import { IdSet } from "../../../text/answers/id-set.ts";
import { type Steering, steer } from "../../../text/answers/steered.ts";
import type { Encoder, Vocabulary } from "../../../text/tokens/types.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { validationError } from "./errors.ts";
import { MAX_BAD_WORDS } from "./lists.ts";
import type { GenerationRequest, SamplingFields } from "./request.ts";
import { shownWords } from "./sampling.ts";

/** Returns the token sequences of `bad_words`. */
export function encodeBadWords({ sampling }: GenerationRequest, encoder: Encoder): Promise<Uint32Array[]> {
  // Each word has at least one sequence, so that one word more than permitted is enough for the refusal.
  return spelled([...new Set(sampling.badWords.list)].slice(0, MAX_BAD_WORDS + 1), encoder);
}

/**
 * Returns the token sequences of words: each at the beginning of a text and, if that differs in the first token but not in
 * length, after a blank.
 */
export async function spelled(texts: readonly string[], encoder: Encoder): Promise<Uint32Array[]> {
  const words = texts.map((word) => word.trimStart());
  const all = await Promise.all(
    words.flatMap((word) => [word, ` ${word}`].map((text) => encoder.encode([text], true))),
  );
  return words.flatMap((_, at) => {
    const [plain, spaced] = [all[2 * at]!, all[2 * at + 1]!];
    const isDifferent = spaced.length > 0 && spaced[0] !== plain[0] && spaced.length === plain.length;
    return isDifferent ? [plain, spaced] : [plain];
  });
}

/** Returns the refusal of `bad_words` when the engine takes the request, in a stream after its head. Null: they are valid. */
export function checkBadWords({ sampling }: GenerationRequest, sequences: readonly Uint32Array[]): ErrorAnswer | null {
  const value = () => shownWords(sampling.badWords);
  if (sequences.some((ids) => ids.length === 0))
    return validationError("bad_words entries must tokenize to at least one token.", "bad_words", value());
  if (sequences.length <= MAX_BAD_WORDS) return null;
  const message = `Too many bad words after tokenization: ${MAX_BAD_WORDS + 1}. The max number is ${MAX_BAD_WORDS}.`;
  return validationError(message, "bad_words", value());
}

/** The fields of a request that force or forbid tokens, or end the answer. */
interface SteeredRequest extends Pick<GenerationRequest, "stopTokenIds" | "ignoreEos" | "minTokens"> {
  readonly sampling: Pick<SamplingFields, "allowedTokenIds" | "logitBias">;
}

/** Returns the rules for the tokens of the answer. Null: nothing is forced or forbidden. */
export function steeringOf(
  request: SteeredRequest,
  badWords: readonly Uint32Array[] | null,
  { eosId, size }: Vocabulary,
): Steering | null {
  const { allowedTokenIds: allowed, logitBias } = request.sampling;
  const forced = logitBias?.forced ?? [];
  const never = new IdSet(size, logitBias?.never);
  const among = allowed === null || forced.length === 0 ? null : new IdSet(size, allowed);
  const kept = among === null ? forced : forced.filter((id) => among.has(id));
  const only = kept.length > 0 ? kept : allowed;
  if (only === null && never.size === 0 && (badWords ?? []).length === 0) return null;
  const ends = new IdSet(size, request.stopTokenIds);
  if (!request.ignoreEos) ends.add(eosId);
  return steer({ only, never, neverAfter: badWords ?? [], ends, endsFrom: request.minTokens }, size);
}

/** Returns the length of the answer: up to its planned end, or `maxTokens` if the rules exclude or prescribe end-of-sequence. */
export function steeredLength(steering: Steering, planned: number | null, maxTokens: number, eosId: number): number {
  if (planned === null || steering.only !== null || steering.never.has(eosId)) return maxTokens;
  return Math.min(planned - 1, maxTokens);
}

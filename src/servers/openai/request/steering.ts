/**
 * Which tokens does a request force or forbid? `allowed_token_ids`, `logit_bias` at its ends, `bad_words`. There are no
 * logits: a bias of 100 leaves only the tokens that have it, one of -100 removes its token, what lies between is nothing.
 * vLLM 0.33: `sampling_params.py` (`from_optional`, `update_from_tokenizer`).
 */

import { IdSet } from "../../../text/answers/id-set.ts";
import { type Steering, steer } from "../../../text/answers/steered.ts";
import type { Encoder, Vocabulary } from "../../../text/tokens/types.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { validationError } from "./errors.ts";
import { MAX_BAD_WORDS } from "./lists.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";
import { shownWords } from "./sampling.ts";

type Asking = ChatRequest | CompletionRequest;

/** Returns the token sequences of `bad_words`. */
export function encodeBadWords({ sampling }: Asking, encoder: Encoder): Promise<Uint32Array[]> {
  // Each gives one sequence at least: more than these are refused without a look at the rest.
  return spelled([...new Set(sampling.badWords.list)].slice(0, MAX_BAD_WORDS + 1), encoder);
}

/** Each word as it begins a text, and after a blank where that is one other token more. */
export async function spelled(given: readonly string[], encoder: Encoder): Promise<Uint32Array[]> {
  const words = given.map((word) => word.trimStart());
  const all = await Promise.all(words.flatMap((word) => [word, ` ${word}`].map((one) => encoder.encode([one], true))));
  return words.flatMap((_, at) => {
    const [plain, spaced] = [all[2 * at]!, all[2 * at + 1]!];
    const other = spaced.length > 0 && spaced[0] !== plain[0] && spaced.length === plain.length;
    return other ? [plain, spaced] : [plain];
  });
}

/** What vLLM says of them when the engine takes the request: in a stream, after its head. */
export function checkBadWords({ sampling }: Asking, sequences: readonly Uint32Array[]): ErrorAnswer | null {
  const value = () => shownWords(sampling.badWords);
  if (sequences.some((ids) => ids.length === 0))
    return validationError("bad_words entries must tokenize to at least one token.", "bad_words", value());
  if (sequences.length <= MAX_BAD_WORDS) return null;
  const message = `Too many bad words after tokenization: ${MAX_BAD_WORDS + 1}. The max number is ${MAX_BAD_WORDS}.`;
  return validationError(message, "bad_words", value());
}

/** Null: nothing is forced or forbidden. */
export function steeringOf(
  request: Asking,
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

/** How long the answer is before the end that was planned for it: to its limit where the end itself is forced or forbidden. */
export function steeredLength(steering: Steering, planned: number | null, maxTokens: number, eosId: number): number {
  if (planned === null || steering.only !== null || steering.never.has(eosId)) return maxTokens;
  return Math.min(planned - 1, maxTokens);
}

/**
 * Checks and shortens the long lists of a request as soon as they are read. Each id is kept once, so that a million ids become at
 * most a vocabulary. If an id is outside the vocabulary, only an error is kept. Texts of vLLM 0.33 (`sampling_params.py`).
 * `sampling.ts` decides when an error is sent.
 */

import { atOnce, ITEMS_OF_A_PIECE, kept, type Pieces } from "../../../base/pieces.ts";
import { IdSet } from "../../../text/answers/id-set.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { repr, reprPieces } from "../../pydantic/repr.ts";
import { type Int, toInt } from "../../pydantic/value.ts";
import { validationError } from "./errors.ts";
import type { BadWords, IdLists, LogitBias } from "./request.ts";
import { outside, outsideError, PYTHON_INT } from "./sampling.ts";

/** vLLM's VLLM_MAX_NUM_BAD_WORDS, counted in token sequences. */
export const MAX_BAD_WORDS = 128;
const MAX_BIAS = 100;
const MAX_LOGPROB_TOKEN_IDS = 128;

/** Lists as the request has them. Null: absent. */
interface SentLists {
  readonly bias: ReadonlyMap<string, number> | null;
  readonly stop: readonly Int[] | null;
  readonly allowed: readonly Int[] | null;
  readonly logprobs: readonly Int[] | null;
}

/** Result of `idLists` for a request without lists. */
export const NO_ID_LISTS: IdLists = {
  logitBias: null,
  biasKeysError: null,
  stopTokenIds: [],
  allowedTokenIds: null,
  idsError: null,
  logprobTokenIds: null,
  logprobIdsError: null,
};

const isNothing = ({ bias, stop, allowed, logprobs }: SentLists) =>
  bias === null && stop === null && allowed === null && logprobs === null;

/** Checks and shortens the lists. `size`: number of tokens of the vocabulary. */
export function idLists(sent: SentLists, size: number): IdLists {
  return isNothing(sent) ? NO_ID_LISTS : atOnce(idListPieces(sent, size));
}

/** Does the work of `idLists` in pieces. */
export function* idListPieces(sent: SentLists, size: number): Pieces<IdLists> {
  if (isNothing(sent)) return NO_ID_LISTS;
  const { bias, stop, allowed, logprobs } = sent;
  const logprobIdsError = logprobs && logprobsError(logprobs, size);
  const logprobTokenIds = logprobs?.slice(0, MAX_LOGPROB_TOKEN_IDS) ?? null;
  const biasKeysError = bias && (yield* keysError(bias));
  const biased = bias === null || biasKeysError !== null ? null : yield* biasOf(bias, size);
  const idsError =
    (biased && "status" in biased ? biased : null) ??
    (stop && (yield* strangeError("stop_token_ids", stop, size))) ??
    (allowed && (yield* allowedError(allowed, size)));
  if (biasKeysError !== null || idsError !== null)
    return { ...NO_ID_LISTS, biasKeysError, idsError, logprobTokenIds, logprobIdsError };
  return {
    ...NO_ID_LISTS,
    logprobTokenIds,
    logprobIdsError,
    logitBias: biased as LogitBias | null,
    stopTokenIds: stop === null ? NO_ID_LISTS.stopTokenIds : yield* once(stop, size),
    allowedTokenIds: allowed && (yield* once(allowed, size)),
  };
}

/** Returns each id once, in the order of first appearance. All must be in the vocabulary. */
function* once(ids: readonly Int[], size: number): Pieces<readonly number[]> {
  if (ids.length < 2) return ids as readonly number[];
  const seen = new IdSet(size);
  return yield* kept(ids as readonly number[], (id) => seen.add(id));
}

function logprobsError(ids: readonly Int[], size: number): ErrorAnswer | null {
  if (ids.length <= MAX_LOGPROB_TOKEN_IDS) return outside("logprob_token_ids", ids, size);
  return validationError(
    `Requested logprob_token_ids of length ${ids.length}, which is greater than max allowed: ${MAX_LOGPROB_TOKEN_IDS}`,
    "logprob_token_ids",
    String(ids.length),
  );
}

/** Returns the error of `outside` for ids that may repeat. Names each id once. */
function* strangeError(name: string, ids: readonly Int[], size: number): Pieces<ErrorAnswer | null> {
  const seen = new Set<Int>();
  const strange = yield* kept(ids, (id) => (id < 0 || id >= size) && !seen.has(id) && seen.add(id) !== undefined);
  return strange.length === 0 ? null : outsideError(name, yield* reprPieces(strange), size);
}

/** Returns the error for keys of `logit_bias` that are not integers, or null. */
function* keysError(bias: ReadonlyMap<string, number>): Pieces<ErrorAnswer | null> {
  const wrong = yield* kept(bias.keys(), (key) => !PYTHON_INT.test(key));
  if (wrong.length === 0) return null;
  const shown = yield* reprPieces(wrong);
  const message = `logit_bias contains key(s) that cannot be converted to integer token IDs: ${shown}`;
  return validationError(message, "logit_bias", shown);
}

/** Matches an integer as Python prints it. Different texts of this form are different integers, unlike texts such as "+1". */
const PRINTED = /^(?:0|-?[1-9]\d{0,14})$/;

const biasId = (key: string): Int => (PRINTED.test(key) ? Number(key) : toInt(BigInt(key.trim().replace(/[_+]/g, ""))));

/** Returns the ids that `logit_bias` forces or forbids, or an error. Makes no list of the keys, because there may be millions. */
function* biasOf(bias: ReadonlyMap<string, number>, size: number): Pieces<LogitBias | ErrorAnswer> {
  let arePrinted = true;
  let seen = 0;
  for (const key of bias.keys()) {
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
    arePrinted &&= PRINTED.test(key);
  }
  const once = arePrinted ? null : new Set<Int>();
  const strange: Int[] = [];
  const forced: number[] = [];
  const never: number[] = [];
  for (const [key, value] of bias) {
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
    const id = biasId(key);
    if (id < 0 || id >= size) {
      if (once === null || !once.has(id)) strange.push(id);
      once?.add(id);
    } else if (value >= MAX_BIAS) forced.push(id as number);
    else if (value <= -MAX_BIAS) never.push(id as number);
  }
  if (strange.length > 0) return outsideError("logit_bias", yield* reprPieces(strange), size);
  return { forced, never };
}

function* allowedError(allowed: readonly Int[], size: number): Pieces<ErrorAnswer | null> {
  if (allowed.length === 0)
    return validationError("allowed_token_ids is not None and empty!", "allowed_token_ids", "[]");
  const strange = yield* kept(allowed, (id) => id < 0 || id >= size);
  if (strange.length === 0) return null;
  const shown = yield* reprPieces(strange);
  return validationError("allowed_token_ids contains out-of-vocab token id!", "allowed_token_ids", shown);
}

/** Up to this many bad words are kept as sent. */
const WORDS_AS_SENT = 1024;
/** Result of `badWordsOf` for a request without bad words. */
export const NO_BAD_WORDS: BadWords = { list: [], shown: null };

/** Shortens a long list of `bad_words` to the words that still cause the same refusal. */
export function badWordsOf(words: readonly string[]): BadWords {
  if (words.length === 0) return NO_BAD_WORDS;
  if (words.length <= WORDS_AS_SENT) return { list: words, shown: null };
  const all = [...new Set(words)];
  if (all.length <= WORDS_AS_SENT) return { list: all, shown: null };
  const list = all.slice(0, MAX_BAD_WORDS + 1);
  return { list: all.includes("") ? [...list, ""] : list, shown: repr(all) };
}

/**
 * Makes the tables of default answers for any vocabulary. Answers are sentences of eight of its tokens that are whole words. The
 * first is capitalized and the last is a full stop, if the vocabulary has such tokens.
 */

import type { Vocabulary } from "../tokens/types.ts";
import { type AnswerTables, BLOCK_TOKENS } from "./answers.ts";

/** Most words that are used. Byte-pair vocabularies start with the most frequent ones. */
const WORDS = 2000;
const SENTENCE_TOKENS = 8;

/** Returns the tables for a vocabulary. */
export function wordTables(vocabulary: Vocabulary): AnswerTables {
  const word: number[] = [];
  const opener: number[] = [];
  let stop = -1;
  const any: number[] = [];
  for (let id = 0; id < vocabulary.size; id++) {
    if (id === vocabulary.eosId || vocabulary.isSpecial(id)) continue;
    const piece = vocabulary.piece(id);
    if (piece === undefined || piece === "") continue;
    if (/^ [a-z]{2,}$/.test(piece) && word.length < WORDS) word.push(id);
    else if (/^ [A-Z][a-z]+$/.test(piece) && opener.length < WORDS) opener.push(id);
    else if (piece === "." && stop < 0) stop = id;
    else if (any.length < WORDS) any.push(id);
  }
  // A vocabulary without words has other tokens, or at least the end of sequence.
  const words = word.length > 0 ? word : any.length > 0 ? any : [vocabulary.eosId];
  const categories = [words, opener.length > 0 ? opener : words, stop < 0 ? words : [stop]];
  const categoryStart = new Int32Array(categories.length + 1);
  categories.forEach(({ length }, at) => {
    categoryStart[at + 1] = categoryStart[at]! + length;
  });
  const templates = Uint8Array.from({ length: BLOCK_TOKENS }, (_, at) => {
    const place = at % SENTENCE_TOKENS;
    return place === 0 ? 1 : place === SENTENCE_TOKENS - 1 ? 2 : 0;
  });
  return { templates, categoryStart, ids: Int32Array.from(categories.flat()) };
}

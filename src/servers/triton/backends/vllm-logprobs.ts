/** Prints log probabilities of a token like the vLLM backend: Python's `json.dumps` of a dict by token id. */

import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { Candidates } from "../../openai/request/logprob-source.ts";
import { reprFloat } from "../../pydantic/repr.ts";

/** Prints the sampled token first, then the other candidates. */
export function logprobsText(sampled: number, made: Candidates, vocabulary: Vocabulary): string {
  const entries = [entry(sampled, made.logprob, made.rank, vocabulary)];
  for (const [at, id] of made.ids.entries())
    if (id !== sampled) entries.push(entry(id, made.logprobs[at]!, at + 1, vocabulary));
  return `{${entries.join(", ")}}`;
}

function entry(id: number, logprob: number, rank: number, vocabulary: Vocabulary): string {
  const piece = vocabulary.piece(id) ?? Buffer.from(vocabulary.bytesOf(id)).toString();
  return `"${id}": {"logprob": ${reprFloat(logprob)}, "rank": ${rank}, "decoded_token": ${asciiJson(piece)}}`;
}

/** Escapes all characters beyond ASCII, as Python does. */
const asciiJson = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

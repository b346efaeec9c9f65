/** Derives the tokens that an LLM model's answer must not contain, from forbidden words and from strong biases. */

import type { Generation } from "../../../engine/interface/types.ts";
import { IdSet } from "../../../text/answers/id-set.ts";
import { type Steering, steer } from "../../../text/answers/steered.ts";
import { spelled } from "../../openai/request/steering.ts";
import type { LlmDeps } from "./around.ts";

type TokenLimits = Pick<Generation, "minTokens" | "ignoreEos" | "stopTokenIds">;

/** Biases from this size on force or forbid a token. Smaller biases have no effect, because there are no logits to shift. */
const BIAS = 100;

/** Combines forbidden words and biases. `bias`: by token id; may be empty. Returns null if nothing is forced or forbidden. */
export function steeringBy(
  { text }: LlmDeps,
  words: readonly Uint32Array[],
  bias: ArrayLike<number>,
  { minTokens, ignoreEos, stopTokenIds }: TokenLimits,
): Steering | null {
  const { size, eosId } = text.vocabulary;
  const required: number[] = [];
  const banned: number[] = [];
  for (let id = 0; id < Math.min(bias.length, size); id++) {
    if (bias[id]! >= BIAS) required.push(id);
    else if (bias[id]! <= -BIAS) banned.push(id);
  }
  if (words.length + required.length + banned.length === 0) return null;
  const ends = new IdSet(size, stopTokenIds);
  if (!ignoreEos) ends.add(eosId);
  const forbidden = new IdSet(size, banned);
  const only = required.length > 0 ? required : null;
  return steer({ only, never: forbidden, neverAfter: words, ends, endsFrom: minTokens }, size);
}

/** Forbids each word both at the start of a text and after a space, as vLLM does. */
export async function wordRules(
  deps: LlmDeps,
  { badWords, limits }: { readonly badWords: readonly string[]; readonly limits: TokenLimits },
): Promise<Steering | null> {
  const words = await spelled(badWords, deps.text.encoder);
  const spellings = words.filter(({ length }) => length > 0);
  return steeringBy(deps, spellings, [], limits);
}

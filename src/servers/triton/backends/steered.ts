/** Which tokens may an LLM model's answer not have? Words that were forbidden, as their ids, and biases that settle it. */

import { IdSet } from "../../../text/answers/id-set.ts";
import { type Steering, steer } from "../../../text/answers/steered.ts";
import { spelled } from "../../openai/request/steering.ts";
import type { LlmAround } from "./around.ts";

export interface TokenLimits {
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly stopTokenIds: readonly number[];
}

/** A bias from here on settles it: there are no logits between which a smaller one could tip the balance. */
const BIAS = 100;

/** `bias`: by token id; empty: none. null: nothing is forbidden. */
export function steeringBy(
  { text }: LlmAround,
  words: readonly Uint32Array[],
  bias: ArrayLike<number>,
  { minTokens, ignoreEos, stopTokenIds }: TokenLimits,
): Steering | null {
  const { size, eosId } = text.vocabulary;
  const only: number[] = [];
  const never: number[] = [];
  for (let id = 0; id < Math.min(bias.length, size); id++) {
    if (bias[id]! >= BIAS) only.push(id);
    else if (bias[id]! <= -BIAS) never.push(id);
  }
  if (words.length + only.length + never.length === 0) return null;
  const ends = new IdSet(size, stopTokenIds);
  if (!ignoreEos) ends.add(eosId);
  const forbidden = new IdSet(size, never);
  const rules = { only: only.length > 0 ? only : null, never: forbidden, neverAfter: words, ends, endsFrom: minTokens };
  return steer(rules, size);
}

/** Each word as it begins a text and behind a blank, as vLLM. */
export async function wordRules(
  around: LlmAround,
  limits: TokenLimits & { readonly badWords: readonly string[] },
): Promise<Steering | null> {
  const words = await spelled(limits.badWords, around.text.encoder);
  return steeringBy(
    around,
    words.filter((one) => one.length > 0),
    [],
    limits,
  );
}

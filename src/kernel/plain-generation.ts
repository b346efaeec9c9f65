/** Makes the generation of a request that brings a prompt and a limit of tokens, and asks for nothing else. */

import type { Generation } from "../engine/interface/types.ts";
import type { Kernel } from "./kernel.ts";

/**
 * `promptIds`: at least one. `maxTokens`: at least 1; with the prompt at most `config.engine.maxModelLen`. The answer may end
 * before it. Arrives now.
 */
export function plainGeneration(
  { backend, chance, text }: Pick<Kernel, "backend" | "chance" | "text">,
  promptIds: Uint32Array,
  maxTokens: number,
): Generation {
  const seed = chance.nextSeed();
  return {
    promptIds,
    maxTokens,
    minTokens: 0,
    ignoreEos: false,
    plannedTokens: text.naturalLength(seed),
    stopTokenIds: text.model.endIds,
    seed,
    priority: 0,
    cacheSalt: "",
    skipReadingPrefixCache: false,
    arrivalUs: backend.nowUs(),
  };
}

/** What does the engine get of one choice? Its prompt, its limits, and what it is to say where that is not simply drawn. */
import { SteeredAnswer, type Steering } from "../../content/steered.ts";
import type { Choices, Generation, Script } from "../../engine/types.ts";
import type { ChatRequest, CompletionRequest } from "../request.ts";
import type { OpenAiOptions } from "./front.ts";
import { promptLogprobCount } from "./output-options.ts";
import type { ServerTraits } from "./server-traits.ts";
import { steeredLength } from "./steering.ts";
import { thinkingOf, thoughtfulAnswer, thoughtsBefore } from "./thinking.ts";

type Asking = ChatRequest | CompletionRequest;

/** A prompt as the engine gets it, and how long its answers may be. */
export interface Cut {
  readonly ids: Uint32Array;
  readonly maxTokens: number;
  /** Of one that was computed elsewhere. */
  readonly transferUs: number | undefined;
}

/** Who the choices of a request are to the engine: the same for all of them. */
export type Placed = Required<Pick<Generation, "adapter" | "priority" | "arrivalUs" | "encodedFromUs">> &
  Pick<Generation, "rank">;

/** In one literal: this is made of every choice, and copying objects into each other costs more than all else of it. */
export function generationOf(
  options: OpenAiOptions,
  { reasoning }: Pick<ServerTraits, "reasoning">,
  request: Asking,
  { ids, maxTokens, transferUs }: Cut,
  seed: number,
  steering: Steering | null,
  written: Uint32Array | null,
  id: string,
  placed: Placed,
  choices: Choices | undefined,
): Generation {
  // The end may come behind `min_tokens`: before it the real engine masks its logit.
  const planned = request.ignoreEos ? null : Math.max(options.naturalLength(seed), request.minTokens + 1);
  const script =
    written === null
      ? scriptOf(options, reasoning, request, ids, maxTokens, seed, steering, planned)
      : writtenAs(options, reasoning, request, ids, maxTokens, seed, written);
  return {
    id,
    promptIds: ids,
    maxTokens,
    minTokens: written === null ? request.minTokens : 0,
    ignoreEos: request.ignoreEos,
    plannedTokens: written === null ? planned : null,
    stopTokenIds: stopIds(request, options),
    seed,
    priority: placed.priority,
    cacheSalt: request.cacheSalt ?? "",
    skipReadingPrefixCache: promptLogprobCount(request) !== null,
    adapter: placed.adapter,
    rank: placed.rank,
    choices,
    arrivalUs: placed.arrivalUs,
    encodedFromUs: placed.encodedFromUs,
    transferUs,
    script,
  };
}

/** What was written for it, behind its thinking. A grammar that is complete lets only the end of sequence follow. */
function writtenAs(
  { answers, config, vocabulary }: OpenAiOptions,
  reasoning: ServerTraits["reasoning"],
  request: Asking,
  ids: Uint32Array,
  maxTokens: number,
  seed: number,
  written: Uint32Array,
): Script {
  const thinking = answers && thinkingOf(request, reasoning, ids, seed, config.wire?.meanReasoningTokens);
  const least = request.ignoreEos ? maxTokens : 1;
  const text = new Uint32Array(Math.max(least, written.length)).fill(vocabulary.eosId);
  text.set(written);
  return thinking ? thoughtsBefore(thinking, answers, seed, text, vocabulary.size) : text;
}

function scriptOf(
  { answers, config, vocabulary }: OpenAiOptions,
  reasoning: ServerTraits["reasoning"],
  request: Asking,
  ids: Uint32Array,
  maxTokens: number,
  seed: number,
  steering: Steering | null,
  planned: number | null,
): Script | undefined {
  if (answers === undefined) return undefined;
  // Where only some tokens are allowed, the tags are not among them.
  const thinks = steering === null || steering.only === null;
  const thinking = thinks ? thinkingOf(request, reasoning, ids, seed, config.wire?.meanReasoningTokens) : null;
  const length = steering === null ? null : steeredLength(steering, planned, maxTokens, vocabulary.eosId);
  if (thinking !== null) {
    const content = planned === null ? null : Math.min(planned - 1, length ?? planned);
    return thoughtfulAnswer(thinking, answers, seed, content, maxTokens, steering, vocabulary.size);
  }
  return steering === null ? undefined : new SteeredAnswer(answers, seed, length!, steering);
}

/** A model may have several ends of sequence: all but the first are stop ids of every request. */
function stopIds({ stopTokenIds, ignoreEos }: Asking, { endIds }: OpenAiOptions): readonly number[] {
  if (endIds === undefined || endIds.length === 0 || ignoreEos) return stopTokenIds;
  return [...new Set([...stopTokenIds, ...endIds])];
}

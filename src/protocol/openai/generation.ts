/** What does the engine get of one choice? Its prompt, its limits, and what it is to say where that is not simply drawn. */
import { plannedLength } from "../../content/answers.ts";
import { SteeredAnswer, type Steering } from "../../content/steered.ts";
import type { Generation } from "../../engine/types.ts";
import type { ChatRequest, CompletionRequest } from "../request.ts";
import { promptLogprobCount, type Server } from "./answer.ts";
import type { OpenAiOptions } from "./front.ts";
import { steeredLength } from "./steering.ts";
import { thinkingOf, thoughtfulAnswer, thoughtsBefore } from "./thinking.ts";

type Asking = ChatRequest | CompletionRequest;

/** A prompt as the engine gets it, and how long its answers may be. */
export interface Cut {
  readonly ids: Uint32Array;
  readonly maxTokens: number;
}

/** All but who it is, where it goes and when it came. */
export function generationOf(
  options: OpenAiOptions,
  { reasoning }: Pick<Server, "reasoning">,
  request: Asking,
  { ids, maxTokens }: Cut,
  seed: number,
  steering: Steering | null,
  written: Uint32Array | null,
): Omit<Generation, "id" | "adapter" | "priority" | "arrivalUs" | "encodedFromUs"> {
  const { config } = options;
  const ends = request.maxTokens === null && !request.ignoreEos;
  const plannedTokens = ends ? plannedLength(seed, config.meanOutputTokens, request.minTokens) : null;
  return {
    promptIds: ids,
    maxTokens,
    minTokens: request.minTokens,
    ignoreEos: request.ignoreEos,
    plannedTokens,
    stopTokenIds: stopIds(request, options),
    seed,
    cacheSalt: request.cacheSalt ?? "",
    skipReadingPrefixCache: promptLogprobCount(request) !== null,
    ...(written === null
      ? scriptOf(options, reasoning, request, { ids, maxTokens }, seed, steering, plannedTokens)
      : writtenAs(options, reasoning, request, { ids, maxTokens }, seed, written)),
  };
}

/** What was written for it, behind its thinking. A grammar that is complete lets only the end of sequence follow. */
function writtenAs(
  { answers, config, vocabulary }: OpenAiOptions,
  reasoning: Server["reasoning"],
  request: Asking,
  { ids, maxTokens }: Cut,
  seed: number,
  written: Uint32Array,
): Pick<Generation, "script" | "minTokens" | "plannedTokens"> {
  const thinking = answers && thinkingOf(request, reasoning, ids, seed, config.wire?.meanReasoningTokens);
  const least = request.ignoreEos ? maxTokens : 1;
  const text = new Uint32Array(Math.max(least, written.length)).fill(vocabulary.eosId);
  text.set(written);
  const whole = { minTokens: 0, plannedTokens: null };
  if (!thinking) return { ...whole, script: text };
  return { ...whole, script: thoughtsBefore(thinking, answers, seed, text, vocabulary.size) };
}

function scriptOf(
  { answers, config, vocabulary }: OpenAiOptions,
  reasoning: Server["reasoning"],
  request: Asking,
  { ids, maxTokens }: Cut,
  seed: number,
  steering: Steering | null,
  planned: number | null,
): Pick<Generation, "script"> {
  if (answers === undefined) return {};
  // Where only some tokens are allowed, the tags are not among them.
  const thinks = steering === null || steering.only === null;
  const thinking = thinks ? thinkingOf(request, reasoning, ids, seed, config.wire?.meanReasoningTokens) : null;
  const length = steering === null ? null : steeredLength(steering, planned, maxTokens, vocabulary.eosId);
  if (thinking !== null) {
    const content = planned === null ? null : Math.min(planned - 1, length ?? planned);
    return {
      script: thoughtfulAnswer(thinking, answers, seed, content, maxTokens, steering, vocabulary.size),
    };
  }
  return steering === null ? {} : { script: new SteeredAnswer(answers, seed, length!, steering) };
}

/** A model may have several ends of sequence: all but the first are stop ids of every request. */
function stopIds({ stopTokenIds, ignoreEos }: Asking, { endIds }: OpenAiOptions): readonly number[] {
  if (endIds === undefined || endIds.length === 0 || ignoreEos) return stopTokenIds;
  return [...new Set([...stopTokenIds, ...endIds])];
}

/**
 * Makes the generation of one choice, as the engine gets it: its prompt, its limits, and its text if that is not simply drawn.
 */

import type { Choices, Generation, TokenSource } from "../../../engine/interface/types.ts";
import type { KernelText } from "../../../kernel/kernel.ts";
import { SteeredAnswer, type Steering } from "../../../text/answers/steered.ts";
import type { Thinking } from "../../../text/answers/thinking.ts";
import { apiOf, promptLogprobCount } from "./output-options.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";
import { steeredLength } from "./steering.ts";
import { thinkingOf, thoughtfulAnswer, thoughtsBefore } from "./thinking.ts";

type Asking = ChatRequest | CompletionRequest;

/** A prompt as the engine gets it, and how long its answers may be. */
export interface Cut {
  readonly ids: Uint32Array;
  readonly maxTokens: number;
  /** How long a prompt is held back that was computed elsewhere. */
  readonly transferUs: number | undefined;
}

/** What the choices of a request have in common. */
export interface RequestPlan
  extends Required<Pick<Generation, "adapter" | "priority" | "arrivalUs" | "encodedFromUs">>,
    Pick<Generation, "rank"> {
  readonly text: KernelText;
  /** Undefined: the default. */
  readonly meanReasoningTokens: number | undefined;
  readonly reasoning: ServerTraits["reasoning"];
  readonly request: Asking;
  readonly steering: Steering | null;
}

/** What each has of its own. */
export interface ChoicePlan {
  readonly id: string;
  readonly cut: Cut;
  readonly seed: number;
  /** Ids that a constraint, a tool call or a dataset made; null: none did. */
  readonly written: Uint32Array | null;
  /** The choices of its prompt; undefined: it is the only one. */
  readonly siblings: Choices | undefined;
}

/** In one literal: this is made of every choice, and copying objects into each other costs more than all else of it. */
export function generationOf(plan: RequestPlan, choice: ChoicePlan): Generation {
  const { text, request } = plan;
  const { cut, seed, written } = choice;
  const natural = request.ignoreEos ? null : text.naturalLength(seed);
  return {
    id: choice.id,
    promptIds: cut.ids,
    maxTokens: cut.maxTokens,
    minTokens: written === null ? request.minTokens : 0,
    ignoreEos: request.ignoreEos,
    plannedTokens: written === null ? natural : null,
    stopTokenIds: stopIds(request, text.model.endIds),
    seed,
    priority: plan.priority,
    cacheSalt: request.cacheSalt ?? "",
    skipReadingPrefixCache: promptLogprobCount(request) !== null,
    adapter: plan.adapter,
    rank: plan.rank,
    choices: choice.siblings,
    ...(request.kind === "chat" && apiOf(request) === "Responses" ? { ofResponses: true } : {}),
    arrivalUs: plan.arrivalUs,
    encodedFromUs: plan.encodedFromUs,
    transferUs: cut.transferUs,
    script: written === null ? drawnScript(plan, choice, natural) : writtenScript(plan, choice, written),
  };
}

function thoughtsOf(
  { request, reasoning, meanReasoningTokens }: RequestPlan,
  { cut, seed }: ChoicePlan,
): Thinking | null {
  return thinkingOf(request, reasoning, cut.ids, seed, meanReasoningTokens);
}

/** What was written for it, behind its thinking. A grammar that is complete lets only the end of sequence follow. */
function writtenScript(plan: RequestPlan, choice: ChoicePlan, written: Uint32Array): TokenSource {
  const { answers, vocabulary } = plan.text.model;
  const thinking = thoughtsOf(plan, choice);
  const least = plan.request.ignoreEos ? choice.cut.maxTokens : 1;
  const text = new Uint32Array(Math.max(least, written.length)).fill(vocabulary.eosId);
  text.set(written);
  return thinking ? thoughtsBefore(thinking, answers, choice.seed, text, vocabulary.size) : text;
}

function drawnScript(plan: RequestPlan, choice: ChoicePlan, natural: number | null): TokenSource | undefined {
  const { text, steering, request } = plan;
  const { answers: tables, vocabulary } = text.model;
  const { seed } = choice;
  const { maxTokens } = choice.cut;
  // Where only some tokens are allowed, the tags are not among them.
  const thinks = plan.reasoning && (steering === null || steering.only === null);
  const thinking = thinks ? thoughtsOf(plan, choice) : null;
  if (thinking !== null) {
    const contentTokens = natural === null || steering?.never.has(vocabulary.eosId) ? null : natural - 1;
    const drawing = { tables, seed, steering, vocabularySize: vocabulary.size };
    return thoughtfulAnswer(thinking, drawing, { contentTokens, minTokens: request.minTokens, maxTokens });
  }
  if (steering === null) return undefined;
  // The first place for the end is behind `min_tokens`: before it the real engine masks its logit.
  const planned = natural === null ? null : Math.max(natural, request.minTokens + 1);
  return new SteeredAnswer(tables, seed, steeredLength(steering, planned, maxTokens, vocabulary.eosId), steering);
}

/** A model may have several ends of sequence: all but the first are stop ids of every request. */
function stopIds({ stopTokenIds, ignoreEos }: Asking, endIds: readonly number[]): readonly number[] {
  if (endIds.length === 0 || ignoreEos) return stopTokenIds;
  return [...new Set([...stopTokenIds, ...endIds])];
}

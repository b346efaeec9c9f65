/**
 * Builds the generation of one choice for the engine: its prompt, its limits, and its token ids unless the engine draws them.
 */

import type { Choices, Generation, TokenSource } from "../../../engine/interface/types.ts";
import type { KernelText } from "../../../kernel/kernel.ts";
import { SteeredAnswer, type Steering } from "../../../text/answers/steered.ts";
import type { Thinking } from "../../../text/answers/thinking.ts";
import type { CommonRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";
import { steeredLength } from "./steering.ts";
import { type ThinkingFields, thinkingOf, thoughtfulAnswer, thoughtsBefore } from "./thinking.ts";

/** A prompt after truncation, and the most output tokens of its answers. */
export interface Cut {
  readonly ids: Uint32Array;
  readonly maxTokens: number;
  /** Microseconds for which a prompt that another server computed is held back. Undefined: it is computed here. */
  readonly transferUs: number | undefined;
}

/** The fields of a request that its generations depend on. */
export type PlannedRequest = Pick<CommonRequest, "ignoreEos" | "minTokens" | "stopTokenIds" | "cacheSalt"> &
  ThinkingFields;

/** Facts about a request that all its choices share. */
export interface RequestPlan
  extends Required<Pick<Generation, "adapter" | "priority" | "arrivalUs" | "encodedFromUs">>,
    Pick<Generation, "rank" | "skipReadingPrefixCache" | "ofResponses"> {
  readonly text: KernelText;
  /** Mean tokens of thinking. Undefined: the default. */
  readonly meanReasoningTokens: number | undefined;
  readonly reasoning: ServerTraits["reasoning"];
  readonly request: PlannedRequest;
  readonly steering: Steering | null;
}

/** Facts about one choice. */
interface ChoicePlan {
  readonly id: string;
  readonly cut: Cut;
  readonly seed: number;
  /** Token ids from a constraint, a tool call or a dataset. Null: none of these applies. */
  readonly written: Uint32Array | null;
  /** All choices of its prompt. Undefined if it is the only one. */
  readonly siblings: Choices | undefined;
}

/** Returns the generation of a choice. Written as one object literal, because copying objects costs more than all the rest. */
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
    skipReadingPrefixCache: plan.skipReadingPrefixCache,
    adapter: plan.adapter,
    rank: plan.rank,
    choices: choice.siblings,
    ...(plan.ofResponses ? { ofResponses: true } : {}),
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

/** Returns the written text after its thinking. End-of-sequence follows, because a complete grammar permits nothing else. */
function writtenScript(plan: RequestPlan, choice: ChoicePlan, written: Uint32Array): TokenSource {
  const { answers, vocabulary } = plan.text.model;
  const thinking = thoughtsOf(plan, choice);
  const least = plan.request.ignoreEos ? choice.cut.maxTokens : 1;
  const text = new Uint32Array(Math.max(least, written.length)).fill(vocabulary.eosId);
  text.set(written);
  return thinking ? thoughtsBefore(thinking, answers, choice.seed, text, vocabulary.size) : text;
}

/** Returns the tokens of a choice that thinks, or whose tokens are forced or forbidden. Undefined: the engine draws them. */
function drawnScript(plan: RequestPlan, choice: ChoicePlan, natural: number | null): TokenSource | undefined {
  const { text, steering, request } = plan;
  const { answers: tables, vocabulary } = text.model;
  const { seed } = choice;
  const { maxTokens } = choice.cut;
  // If a request allows only some tokens, the tags around thinking are not among them.
  const thinks = plan.reasoning && (steering === null || steering.only === null);
  const thinking = thinks ? thoughtsOf(plan, choice) : null;
  if (thinking !== null) {
    const contentTokens = natural === null || steering?.never.has(vocabulary.eosId) ? null : natural - 1;
    const drawing = { tables, seed, steering, vocabularySize: vocabulary.size };
    return thoughtfulAnswer(thinking, drawing, { contentTokens, minTokens: request.minTokens, maxTokens });
  }
  if (steering === null) return undefined;
  // The end cannot come before `min_tokens`, because the real engine masks its logit until then.
  const planned = natural === null ? null : Math.max(natural, request.minTokens + 1);
  return new SteeredAnswer(tables, seed, steeredLength(steering, planned, maxTokens, vocabulary.eosId), steering);
}

/** Returns the stop ids of a request. If the model has several end-of-sequence tokens, these include all but the first one. */
function stopIds({ stopTokenIds, ignoreEos }: PlannedRequest, endIds: readonly number[]): readonly number[] {
  if (endIds.length === 0 || ignoreEos) return stopTokenIds;
  return [...new Set([...stopTokenIds, ...endIds])];
}

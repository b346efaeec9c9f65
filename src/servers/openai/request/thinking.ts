/** Puts thinking in front of answers, if the server has a reasoning parser. Decides its length from the seed or the request. */

import type { TokenSource } from "../../../engine/interface/types.ts";
import type { AnswerTables } from "../../../text/answers/answers.ts";
import type { Steering } from "../../../text/answers/steered.ts";
import { drawn, type Thinking, ThinkingAnswer, thinkingLength } from "../../../text/answers/thinking.ts";
import { type ReasoningSetup, thinkingIsOver } from "../tool-calls/reasoning.ts";
import type { ChatRequest, CompletionRequest, SamplingFields } from "./request.ts";

/** Default of `--mean-reasoning-tokens`. */
const MEAN_TOKENS = 64;
/** Number of tokens at the end of a prompt that are searched for the tag with which a template opens the thinking. */
const OPENING_TOKENS = 3;

/** The fields of a request that its thinking depends on. */
export type ThinkingFields =
  | Pick<CompletionRequest, "kind">
  | (Pick<ChatRequest, "kind" | "thinks" | "reasoningTokens"> & {
      readonly sampling: Pick<SamplingFields, "thinkingTokenBudget">;
    });

/** Returns the thinking of an answer, or null if it does not think. */
export function thinkingOf(
  request: ThinkingFields,
  setup: ReasoningSetup | null | undefined,
  promptIds: Uint32Array,
  seed: number,
  meanTokens: number = MEAN_TOKENS,
): Thinking | null {
  if (!setup || request.kind !== "chat" || thinkingIsOver(setup, promptIds, request.thinks)) return null;
  const { startId, endId } = setup;
  const opened = promptIds.subarray(-OPENING_TOKENS).includes(startId);
  const budget = request.sampling.thinkingTokenBudget;
  const wanted = request.reasoningTokens ?? thinkingLength(seed, meanTokens);
  return {
    startId: opened ? null : startId,
    endId,
    tokens: budget === null ? wanted : Math.min(wanted, Number(budget)),
  };
}

/** Lengths of an answer that begins with thinking. */
interface ThoughtfulLength {
  /** Tokens after the thinking, without end-of-sequence. Null: as many as `maxTokens` leaves. */
  readonly contentTokens: number | null;
  /** Fewest tokens of thinking and content together. */
  readonly minTokens: number;
  /** Most tokens of both together. */
  readonly maxTokens: number;
}

/** Values from which the tokens of an answer are drawn. */
interface DrawInputs {
  readonly tables: AnswerTables;
  readonly seed: number;
  readonly steering: Steering | null;
  readonly vocabularySize: number;
}

/** Returns the tokens of an answer that begins with thinking. Both parts are drawn. */
export function thoughtfulAnswer(
  thinking: Thinking,
  { tables, seed, steering, vocabularySize }: DrawInputs,
  { contentTokens, minTokens, maxTokens }: ThoughtfulLength,
): TokenSource {
  const head = (thinking.startId === null ? 0 : 1) + thinking.tokens + 1;
  const rest = Math.max(0, contentTokens === null ? maxTokens - head : Math.max(contentTokens, minTokens - head));
  const text = (salt: number, length: number) => drawn(tables, seed ^ salt, length, steering, vocabularySize);
  return new ThinkingAnswer(thinking, text, text(0, rest));
}

/** Returns the tokens of an answer whose text is known, with drawn thinking in front. */
export function thoughtsBefore(
  thinking: Thinking,
  tables: AnswerTables,
  seed: number,
  text: Uint32Array,
  vocabularySize: number,
): TokenSource {
  const thoughts = (salt: number, length: number) => drawn(tables, seed ^ salt, length, null, vocabularySize);
  return new ThinkingAnswer(thinking, thoughts, text);
}

/** Reports whether an answer has no thinking, because its prompt has closed it or the request has switched it off. */
export function isOver(reasoning: ReasoningSetup, request: ThinkingFields, promptIds: Uint32Array): boolean {
  return request.kind !== "chat" || thinkingIsOver(reasoning, promptIds, request.thinks);
}

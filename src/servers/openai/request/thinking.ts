/** How much does an answer think, and where does it stop? With a reasoning parser only; no such server thinks without one. */

import type { TokenSource } from "../../../engine/interface/types.ts";
import type { AnswerTables } from "../../../text/answers/answers.ts";
import type { Steering } from "../../../text/answers/steered.ts";
import { drawn, type Thinking, ThinkingAnswer, thinkingLength } from "../../../text/answers/thinking.ts";
import { type ReasoningSetup, thinkingIsOver } from "../tool-calls/reasoning.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";

type Asking = ChatRequest | CompletionRequest;

/** Mean of `--mean-reasoning-tokens`. */
const MEAN_TOKENS = 64;
/** A template that opens the thinking does so with the tag and a line end. */
const OPENING_TOKENS = 3;

/** null: it does not think. */
export function thinkingOf(
  request: Asking,
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

/** How long an answer is that thinks first. */
interface ThoughtfulLength {
  /** Tokens behind the thinking, without the end of sequence; null: it goes on until it has `maxTokens` in all. */
  readonly contentTokens: number | null;
  /** Least of thinking and content together. */
  readonly minTokens: number;
  readonly maxTokens: number;
}

/** What the tokens of an answer are drawn from. */
export interface Drawing {
  readonly tables: AnswerTables;
  readonly seed: number;
  readonly steering: Steering | null;
  readonly vocabularySize: number;
}

/** An answer that thinks first. */
export function thoughtfulAnswer(
  thinking: Thinking,
  { tables, seed, steering, vocabularySize }: Drawing,
  { contentTokens, minTokens, maxTokens }: ThoughtfulLength,
): TokenSource {
  const head = (thinking.startId === null ? 0 : 1) + thinking.tokens + 1;
  const rest = Math.max(0, contentTokens === null ? maxTokens - head : Math.max(contentTokens, minTokens - head));
  const text = (salt: number, length: number) => drawn(tables, seed ^ salt, length, steering, vocabularySize);
  return new ThinkingAnswer(thinking, text, text(0, rest));
}

/** The thinking of an answer whose text is known. */
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

/** Reports whether a reasoning parser finds nothing to split off: the prompt has closed the thinking, or the request switched it off. */
export function isOver(reasoning: ReasoningSetup, request: Asking, promptIds: Uint32Array): boolean {
  return request.kind !== "chat" || thinkingIsOver(reasoning, promptIds, request.thinks);
}

/** What is known of a request while its answer is made? Prompts, output options, identity; and what follows from them. */

import type { Ids } from "../../../base/random.ts";
import { Finish, type Outcome, type Submission } from "../../../engine/interface/types.ts";
import type { Ticket } from "../../../kernel/accounting.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { engineDead, internalError } from "../request/errors.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import { Logprobs } from "../request/logprobs.ts";
import { hidesTokens, type OutputOptions } from "../request/output-options.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import { AnswerParser } from "../tool-calls/answer-parser.ts";
import type { ChoiceSoFar, Form } from "./form.ts";
import { OutputTimes } from "./request-metrics.ts";

/** Why the engine gave a generation up. */
export function engineError(server: ServerTraits): ErrorAnswer {
  return server.alive() ? internalError : engineDead;
}

/** One prompt of a request. */
export interface Prompt {
  readonly tokens: number;
  /** Only where the answer shows them; null else. */
  readonly ids: Uint32Array | null;
  /** Text to be echoed; null: none. */
  readonly echo: string | null;
  /** Seed of its first choice; the next ones count on. */
  readonly seed: number;
  /** A reasoning parser finds that nothing of the answer is thinking. */
  readonly thinkingIsOver?: boolean;
}

/** The prompt of a choice. */
export function promptOf({ output, prompts }: AnswerContext, index: number): Prompt {
  return prompts[Math.floor(index / output.n)]!;
}

/** The parser of a choice; null: its text is shown as it is. */
export function answerParser(context: AnswerContext, index: number): AnswerParser | null {
  const { parser } = context.output;
  return parser && new AnswerParser(parser, promptOf(context, index).thinkingIsOver === true);
}

/** A request that the engine gets, as its answer needs it. */
export interface AnswerContext {
  readonly server: ServerTraits;
  readonly output: OutputOptions;
  readonly prompts: readonly Prompt[];
  readonly id: string;
  /** Makes the digits of the ids in the answer. */
  readonly newId: Ids;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  /** Chat with `return_prompt_text`. */
  readonly promptText: string | null;
  readonly ticket: Ticket;
  /** Log probabilities by choice, where a script brings its own. */
  readonly logprobs: ((index: number) => LogprobSource) | null;
  /** Several conversations in one request: what belongs to one prompt is not shown. */
  readonly batch: boolean;
  /** Another server goes on with it, which the answer in one piece says. */
  readonly remoteDecode?: boolean;
  /** How the dialect writes the answer. */
  readonly form: Form;
  /** Most output tokens, of the first prompt. */
  readonly maxTokens: number;
  /** When it was handed to the engine; the engine's clock. */
  readonly queuedUs: number;
  /** The engine's clock, where the answer tells its truth. */
  readonly truthUs: (() => number) | null;
}

/** What vLLM calls the prompt at `index` in logs (`completion/serving.py`); its engine adds a random suffix, which is left out here. */
export function promptId({ id, output }: AnswerContext, index: number): string {
  return output.chat ? id : `${id}-${index}`;
}

/** What vLLM's engine calls one of a prompt's `n` choices (`v1/engine/parallel_sampling.py`). */
export function engineId(prompt: string, choice: number, n: number): string {
  return n === 1 ? prompt : `${choice}_${prompt}`;
}

export const FINISH_NAMES = ["stop", "length", "abort", "error", "repetition"] as const;

/** Notes when the outputs of a choice come, for an answer of one choice that says so; null for others. */
export function timesOf({ server, output, prompts }: AnswerContext): OutputTimes | null {
  return server.answers.perRequestMetrics && output.n * prompts.length === 1 ? new OutputTimes() : null;
}

/** A request counts once: as what most went wrong with its choices. */
export function outcomeOf(finishes: readonly Finish[]): Outcome {
  if (finishes.includes(Finish.Error)) return "error";
  if (finishes.includes(Finish.Abort)) return "abort";
  return finishes.includes(Finish.Length) ? "length" : "stop";
}

/** Log probabilities of one choice; null: none are asked for, or shown. */
export function logprobsOf(context: AnswerContext, index: number): Logprobs | null {
  const { server, output, logprobs: own } = context;
  if (output.logprobs === null || hidesTokens(output)) return null;
  const seed = promptOf(context, index).seed + (index % output.n);
  const { logprobs, logprobIds, returnTokensAsTokenIds } = output;
  const source = own?.(index) ?? server.logprobs;
  return new Logprobs(source, seed, server.vocabulary, logprobs, returnTokensAsTokenIds, logprobIds);
}

/** How an answer of one choice ended. */
export interface Ending {
  readonly finish: (typeof FINISH_NAMES)[number];
  readonly stop: ChoiceSoFar["stop"];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** null: there is no reasoning parser. */
  readonly reasoningTokens: number | null;
  /** Tokens of the prompt that were read from the cache, and written to it. */
  readonly cachedTokens: number;
  readonly createdTokens: number;
  /** JSON of the request's own times; null: not wanted. */
  readonly times: string | null;
}

export function endingOf(context: AnswerContext, choice: ChoiceSoFar): Ending {
  const { finish, stop, tokens, reasoningTokens, submission, times } = choice;
  const { cached, made } = cacheUse(context, submission);
  return {
    finish: FINISH_NAMES[finish!],
    stop,
    promptTokens: context.prompts[0]!.tokens,
    completionTokens: tokens,
    reasoningTokens,
    cachedTokens: cached,
    createdTokens: made,
    times: times?.text(context.queuedUs, tokens, submission, true) ?? null,
  };
}

/** What `--enable-prompt-tokens-details` tells: of the last prompt, as vLLM does. */
export function cacheUse(
  { server, prompts }: AnswerContext,
  lastPrompt: Submission | null,
): { cached: number; made: number } {
  const cached = lastPrompt?.cachedTokens ?? 0;
  const block = server.cacheBlockTokens;
  const tokens = prompts.at(-1)!.tokens;
  return { cached, made: block === 0 ? 0 : Math.max(0, tokens - (tokens % block) - cached) };
}

/** What do streamed and collected answers share? What is known of a request, its ends, its usage. */
import { Finish, type Outcome, type Submission } from "../../engine/types.ts";
import { AnswerParser } from "../answer-parser.ts";
import { engineDead, internalError } from "../errors.ts";
import type { Ending, Form } from "../form.ts";
import type { ErrorAnswer } from "../request.ts";
import type { LogprobSource } from "./front.ts";
import { Logprobs } from "./logprobs.ts";
import type { OutputOptions } from "./output-options.ts";
import { OutputTimes } from "./request-metrics.ts";
import type { ServerTraits } from "./server-traits.ts";
import type { Ticket } from "./ticket.ts";

/** Why the engine gave a generation up. */
export function engineError(server: ServerTraits): ErrorAnswer {
  return server.dead?.() === true ? engineDead : internalError;
}

/** One prompt of a request. */
export interface Prompt {
  readonly tokens: number;
  /** Only where the answer shows them; null else. */
  readonly ids: readonly number[] | null;
  /** Text to be echoed; null: none. */
  readonly echo: string | null;
  /** Seed of its first choice; the next ones count on. */
  readonly seed: number;
  /** A reasoning parser finds that nothing of the answer is thinking. */
  readonly thinkingIsOver?: boolean;
}

/** What takes the answer of a choice apart; null: nothing does. */
export function answerParser({ wishes, prompts }: Asked, index: number): AnswerParser | null {
  const prompt = prompts[Math.floor(index / wishes.n)]!;
  return wishes.parser && new AnswerParser(wishes.parser, prompt.thinkingIsOver === true);
}

/** One request and the answer's head. */
export interface Asked {
  readonly server: ServerTraits;
  readonly wishes: OutputOptions;
  readonly prompts: readonly Prompt[];
  readonly id: string;
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
  /** In the form of another dialect; null: OpenAI's. */
  readonly form: Form | null;
  /** When it was handed to the engine; the engine's clock. */
  readonly queuedUs: number;
  /** The engine's clock, where the answer tells its truth. */
  readonly truthUs: (() => number) | null;
}

/** What vLLM calls the prompt at `index` in logs (`completion/serving.py`); its engine adds a random suffix, which is left out here. */
export function promptId({ id, wishes }: Asked, index: number): string {
  return wishes.chat ? id : `${id}-${index}`;
}

/** The same for one of `n` choices (`v1/engine/parallel_sampling.py`). */
export function engineId(prompt: string, choice: number, n: number): string {
  return n === 1 ? prompt : `${choice}_${prompt}`;
}

/** How a choice of chat has ended: one that called tools of its own accord says so (`tool_calls_utils.py`). */
export function finishName({ namedTool }: OutputOptions, finish: Finish, called: boolean): string {
  return called && finish === Finish.Stop && !namedTool ? "tool_calls" : FINISH_NAMES[finish];
}

export const FINISH_NAMES = ["stop", "length", "abort", "error", "repetition"] as const;

/** JSON of `stop_reason`. `stop`: the stop string, `stopTokenId`: -1 for none. */
export function stopReason(finish: Finish, stop: string | null, stopTokenId: number): string {
  if (stop !== null) return JSON.stringify(stop);
  if (finish === Finish.Repetition) return '"repetition_detected"';
  return stopTokenId >= 0 ? String(stopTokenId) : "null";
}

/** Where the answer is to say when its outputs came: of one choice alone. */
export function timesOf({ server, wishes, prompts }: Asked): OutputTimes | null {
  return server.clockUs && wishes.n * prompts.length === 1 ? new OutputTimes() : null;
}

/** JSON of `weight_versions` of a choice that has ended: its weights were those of the start. */
export function weightVersions({ wishes }: Asked, tokens: number): string {
  return wishes.weightVersions ? `[{"version":"default","start":0,"end":${tokens}}]` : "null";
}

/** A request counts once: as what most went wrong with its choices. */
export function outcomeOf(finishes: readonly Finish[]): Outcome {
  if (finishes.includes(Finish.Error)) return "error";
  if (finishes.includes(Finish.Abort)) return "abort";
  return finishes.includes(Finish.Length) ? "length" : "stop";
}

/** Log probabilities of one choice; null: none asked for. */
export function logprobsOf({ server, wishes, prompts, logprobs: own }: Asked, index: number): Logprobs | null {
  if (wishes.logprobs === null) return null;
  const seed = prompts[Math.floor(index / wishes.n)]!.seed + (index % wishes.n);
  const { logprobs, logprobIds, returnTokensAsTokenIds } = wishes;
  const source = own?.(index) ?? server.logprobs;
  return new Logprobs(source, seed, server.vocabulary, logprobs, returnTokensAsTokenIds, logprobIds);
}

/** JSON of `prompt_logprobs`. Needs the prompt's ids. */
export function promptLogprobs({ server, wishes, logprobs }: Asked, { ids, seed }: Prompt): string {
  if (wishes.promptLogprobs === null || ids === null) return "null";
  const source = logprobs?.(0) ?? server.logprobs;
  return new Logprobs(source, seed, server.vocabulary, wishes.promptLogprobs, false).prompt(ids);
}

/** How the one choice of a form ended. */
export function endingOf(asked: Asked, of: Ended): Ending {
  const { cached, made } = cacheUse(asked, of.submission);
  return {
    finish: FINISH_NAMES[of.finish],
    stop: of.stop,
    promptTokens: asked.prompts[0]!.tokens,
    completionTokens: of.tokens,
    reasoningTokens: of.reasoningTokens,
    cachedTokens: cached,
    createdTokens: made,
    times: of.times?.text(asked.queuedUs, of.tokens, of.submission, true) ?? null,
  };
}

interface Ended {
  readonly finish: Finish;
  readonly stop: string | number | null;
  readonly tokens: number;
  readonly reasoningTokens: number | null;
  readonly submission: Submission | null;
  readonly times: OutputTimes | null;
}

/** What `--enable-prompt-tokens-details` tells: of the last prompt, as vLLM does. */
export function cacheUse({ server, prompts }: Asked, lastPrompt: Submission | null): { cached: number; made: number } {
  const cached = lastPrompt?.cachedTokens ?? 0;
  const block = server.cacheBlockTokens;
  const tokens = prompts.at(-1)!.tokens;
  return { cached, made: block === 0 ? 0 : Math.max(0, tokens - (tokens % block) - cached) };
}

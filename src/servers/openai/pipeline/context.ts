/** The data of a request that writing its answer needs: prompts, output options, ids. Also values computed from them. */

import type { Ids } from "../../../base/random.ts";
import { Finish, type Outcome, type Submission } from "../../../engine/interface/types.ts";
import type { Ticket } from "../../../kernel/accounting.ts";
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HttpHeaders } from "../../../wire/http/request.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { engineDead, internalError } from "../request/errors.ts";
import type { Cut } from "../request/generation.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import { Logprobs } from "../request/logprobs.ts";
import { hidesTokens, type OutputOptions, outputOptions, promptLogprobCount } from "../request/output-options.ts";
import { decoded, promptText } from "../request/prompts.ts";
import type { CompletionRequest, GenerationRequest, Limits } from "../request/request.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import { isOver } from "../request/thinking.ts";
import { AnswerParser } from "../tool-calls/answer-parser.ts";
import type { ChoiceSoFar, Form } from "./form.ts";
import { OutputTimes } from "./request-metrics.ts";
import type { ReceivedRequest, Serving } from "./serving.ts";

/** Returns the error for a generation that the engine failed. It differs if the engine is dead. */
export function engineError(server: ServerTraits): ErrorAnswer {
  return server.alive.get() ? internalError : engineDead;
}

/** One prompt of a request. */
export interface Prompt {
  readonly tokens: number;
  /** Token ids. null unless the answer shows them. */
  readonly ids: Uint32Array | null;
  /** Text that the answer begins with (`echo`). null: it does not repeat the prompt. */
  readonly echo: string | null;
  /** Seed of the prompt's first choice. Each further choice has the next number. */
  readonly seed: number;
  /** True if the prompt has already closed the reasoning, so that the whole answer is content. */
  readonly thinkingIsOver?: boolean;
}

/** Returns the prompt of the choice at `index`. */
export function promptOf({ output, prompts }: AnswerContext, index: number): Prompt {
  return prompts[Math.floor(index / output.n)]!;
}

/** Creates the parser of a choice. Returns null if its text is shown unparsed. */
export function answerParser(context: AnswerContext, index: number): AnswerParser | null {
  const { parser } = context.output;
  return parser && new AnswerParser(parser, promptOf(context, index).thinkingIsOver === true);
}

/** The data that writing the answer of an accepted request needs. */
export interface AnswerContext {
  readonly server: ServerTraits;
  readonly output: OutputOptions;
  readonly prompts: readonly Prompt[];
  readonly id: string;
  /** Creates the random part of ids inside the answer. */
  readonly newId: Ids;
  /** Time of creation in Unix seconds. */
  readonly created: number;
  readonly model: string;
  /** The prompt as text, for a chat with `return_prompt_text`. null: not shown. */
  readonly promptText: string | null;
  readonly ticket: Ticket;
  /** Log probabilities that a script orders, by choice. null: they are generated. */
  readonly logprobs: ((index: number) => LogprobSource) | null;
  /** True if the request has several conversations. Data of a single prompt is then not shown. */
  readonly batch: boolean;
  /** True if another server will decode the request. A whole answer says so. */
  readonly remoteDecode?: boolean;
  /** Writes the answer in the request's API. */
  readonly form: Form;
  /** Limit of output tokens of the first prompt. */
  readonly maxTokens: number;
  /** Time when the request was handed to the engine. */
  readonly queuedUs: number;
  /** The engine's clock, if the answer reports its true times. null: it does not. */
  readonly truthUs: (() => number) | null;
}

/** Returns vLLM's id of the prompt at `index` in logs (`completion/serving.py`), without the random suffix of its engine. */
export function promptId({ id, output }: AnswerContext, index: number): string {
  return output.chat ? id : `${id}-${index}`;
}

/** Returns the id of one of a prompt's `n` choices in vLLM's engine (`v1/engine/parallel_sampling.py`). */
export function engineId(prompt: string, choice: number, n: number): string {
  return n === 1 ? prompt : `${choice}_${prompt}`;
}

/** Finish reasons in answers, by `Finish`. */
export const FINISH_NAMES = ["stop", "length", "abort", "error", "repetition"] as const;

/** Creates a recorder of output times. Returns null unless the answer shows its times and has only one choice. */
export function timesOf({ server, output, prompts }: AnswerContext): OutputTimes | null {
  return server.answers.perRequestMetrics && output.n * prompts.length === 1 ? new OutputTimes() : null;
}

/** Returns the outcome under which a request is counted: the worst outcome of its choices. */
export function outcomeOf(finishes: readonly Finish[]): Outcome {
  if (finishes.includes(Finish.Error)) return "error";
  if (finishes.includes(Finish.Abort)) return "abort";
  return finishes.includes(Finish.Length) ? "length" : "stop";
}

/** Creates the log probabilities of one choice. Returns null if none are requested or shown. */
export function logprobsOf(context: AnswerContext, index: number): Logprobs | null {
  const { server, output, logprobs: ordered } = context;
  if (output.logprobs === null || hidesTokens(output)) return null;
  const seed = promptOf(context, index).seed + (index % output.n);
  const { logprobs, logprobIds, returnTokensAsTokenIds } = output;
  const source = ordered?.(index) ?? server.logprobs;
  return new Logprobs(source, seed, server.vocabulary, logprobs, returnTokensAsTokenIds, logprobIds);
}

/** The end and the usage of an answer with one choice. */
export interface Ending {
  readonly finish: (typeof FINISH_NAMES)[number];
  readonly stop: ChoiceSoFar["stop"];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Number of reasoning tokens. null if the server has no reasoning parser. */
  readonly reasoningTokens: number | null;
  /** Tokens of the prompt that were read from the cache, and written to it. */
  readonly cachedTokens: number;
  readonly createdTokens: number;
  /** JSON object with the request's times. null: not shown. */
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

/** Returns the cache use that `--enable-prompt-tokens-details` shows. Like vLLM, it is that of the last prompt. */
export function cacheUse(
  { server, prompts }: AnswerContext,
  lastPrompt: Submission | null,
): { cached: number; made: number } {
  const cached = lastPrompt?.cachedTokens ?? 0;
  const block = server.cacheBlockTokens;
  const tokens = prompts.at(-1)!.tokens;
  return { cached, made: block === 0 ? 0 : Math.max(0, tokens - (tokens % block) - cached) };
}

/** Results of earlier stages, from which an `AnswerContext` is made. */
interface AnswerContextInput {
  readonly received: ReceivedRequest;
  readonly cut: readonly Cut[];
  readonly ticket: Ticket;
  /** Seed of the first choice, by prompt. */
  readonly seeds: readonly number[];
  /** Texts of prompts given as ids, if already decoded. */
  readonly echoes: readonly (string | null)[] | null;
  /** Log probabilities that a script orders. */
  readonly logprobs: AnswerContext["logprobs"];
  /** Parts of an ordered answer. null: the parsers find the reasoning. */
  readonly parts: readonly AnswerPart[] | null;
  readonly queuedUs: number;
}

/** Returns a prompt's text: that of the request, or `decodedText`, or the text of its ids. Truncated ids are left out. */
function echoOf(
  { prompts }: CompletionRequest,
  i: number,
  ids: Uint32Array,
  decodedText: string | null,
  vocabulary: Vocabulary,
): string {
  const prompt = prompts[i]!;
  if (typeof prompt === "string") return prompt;
  return (prompt.length === ids.length ? decodedText : null) ?? decoded(vocabulary, ids);
}

export function answerContext({ kernel, server, limits }: Serving, input: AnswerContextInput): AnswerContext {
  const { received, cut, ticket, seeds, echoes, logprobs, parts, queuedUs } = input;
  const { request, form, http } = received;
  const { backend, chance, config, text, time } = kernel;
  const isEchoed = request.kind === "completion" && request.echo;
  const keepIds = request.returnTokenIds || isEchoed || promptLogprobCount(request) !== null;
  const prompts: Prompt[] = [];
  for (let i = 0; i < cut.length; i++) {
    const { ids } = cut[i]!;
    prompts.push({
      tokens: ids.length,
      ids: keepIds ? ids : null,
      echo: isEchoed ? echoOf(request, i, ids, echoes?.[i] ?? null, text.model.vocabulary) : null,
      seed: seeds[i]!,
      thinkingIsOver: !server.reasoning || isOver(server.reasoning, request, ids),
    });
  }
  return {
    server,
    output: outputOptions(request, server, parts),
    prompts,
    id: form.id(http.headers.get("x-request-id"), chance.newId),
    newId: chance.newId,
    created: Math.floor(time.epochSeconds()),
    model: adapterOf(limits, request) > 0 ? request.model! : config.models.servedModelNames[0]!,
    promptText: promptText(request, text.model, received.prompts?.[0]),
    ticket,
    batch: request.kind === "chat" && request.conversations !== undefined,
    truthUs: wantsTruth(http.headers) ? backend.nowUs : null,
    remoteDecode: request.kvTransfer?.remoteDecode === true,
    form,
    maxTokens: cut[0]!.maxTokens,
    logprobs,
    queuedUs,
  };
}

/** Name of a request header and of a response header (see truth-summary.ts). */
export const TRUTH_HEADER = "x-understudy-truth";

function wantsTruth(headers: Pick<HttpHeaders, "get">): boolean {
  return headers.get(TRUTH_HEADER)?.trim().toLowerCase() === "summary";
}

/** Returns the number of the LoRA adapter that the request names, or 0. */
export function adapterOf({ loraNames }: Limits, { model }: GenerationRequest): number {
  return model === null ? 0 : loraNames.indexOf(model) + 1;
}

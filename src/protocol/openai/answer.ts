/** What do streamed and collected answers share? What the server says of itself, what is known of a request, usage. */

import type { ToolHabits } from "../../config/tool-habits.ts";
import type { Vocabulary } from "../../content/types.ts";
import { Finish, type Outcome, type Submission } from "../../engine/types.ts";
import { AnswerParser, type ParserSetup } from "../answer-parser.ts";
import { engineDead, internalError } from "../errors.ts";
import type { Ending, Form } from "../form.ts";
import { OutputParser } from "../output-parser.ts";
import type { ReasoningSetup } from "../reasoning.ts";
import type { ChatRequest, CompletionRequest, ErrorAnswer } from "../request.ts";
import type { HeldBytes } from "../sink.ts";
import type { ToolParserKind } from "../tool-parsers.ts";
import type { Accounting } from "./front.ts";
import { type LogprobSource, Logprobs } from "./logprobs.ts";
import { OutputTimes } from "./request-metrics.ts";
import { toolUseOf } from "./tool-use.ts";

/** The same for all answers of a server. */
export interface Server {
  /** The end of one that took too long. */
  readonly timedOut: ErrorAnswer;
  /** Told of ids that wait for clients that do not keep up. */
  readonly waiting?: HeldBytes;
  readonly vocabulary: Vocabulary;
  readonly logprobs: LogprobSource;
  /** null: answers carry no fingerprint. */
  readonly fingerprint: string | null;
  readonly responseRole: string;
  /** `--return-tokens-as-token-ids`. */
  readonly tokensAsIds?: boolean;
  readonly streamInterval: number;
  readonly forceIncludeUsage: boolean;
  readonly promptTokensDetails: boolean;
  /** Tokens per block of the prefix cache; 0 without one. */
  readonly cacheBlockTokens: number;
  /** `--reasoning-parser`; null or absent: none. */
  readonly reasoning?: ReasoningSetup | null;
  /** `--tool-call-parser`; null or absent: none. */
  readonly tools?: {
    readonly kind: ToolParserKind;
    readonly autoEnabled: boolean;
    readonly habits?: ToolHabits | undefined;
    readonly parsed?: Accounting["parsed"];
  } | null;
  readonly requestLog?: ((line: string) => void) | null;
  /** The engine has died: what it gave up ends with another error. */
  readonly dead?: () => boolean;
  /** `--enable-per-request-metrics`: the engine's clock. */
  readonly clockUs?: (() => number) | null;
  /** `--sse-keep-alive-interval`, and what waits so long; null: never. */
  readonly keepAlive?: { readonly us: number; readonly after: (us: number, act: () => void) => () => void } | null;
}

/** Why the engine gave a generation up. */
export function engineError(server: Server): ErrorAnswer {
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

/** What of a request shapes its answer: thousands wait at a time, so messages and checked fields are let go. */
export interface Wishes {
  readonly chat: boolean;
  readonly n: number;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly streamInterval: number;
  /** Completions with `echo` and no output tokens. */
  readonly onlyEcho: boolean;
  readonly echo: boolean;
  /** Chat: who speaks, and what it said before. */
  readonly role: string;
  readonly lastMessage: string;
  /** Chat's `echo`: content is a text even where there is none. */
  readonly chatEcho: boolean;
  /** Candidates per token, -1 for all; null: no log probabilities. */
  readonly logprobs: number | null;
  /** `logprob_token_ids`; null: the likeliest are the candidates. */
  readonly logprobIds: readonly number[] | null;
  readonly promptLogprobs: number | null;
  readonly returnTokenIds: boolean;
  readonly weightVersions: boolean;
  readonly beam: boolean;
  readonly returnTokensAsTokenIds: boolean;
  readonly text: TextWishes;
  /** `tool_choice` names one. */
  readonly namedTool: boolean;
  /** null: the text is shown as it is. */
  readonly parser: ParserSetup | null;
}

/** What makes text of tokens. */
export interface TextWishes {
  readonly skipSpecialTokens: boolean;
  readonly includeStopStrInOutput: boolean;
  readonly stop: readonly string[];
  readonly minTokens: number;
}

export function wishesOf(request: ChatRequest | CompletionRequest, server: Server): Wishes {
  const { n, stop, includeStopStrInOutput, minTokens } = request;
  const chat = request.kind === "chat";
  const includeUsage = request.includeUsage || server.forceIncludeUsage;
  const role = chat ? roleOf(request, server) : "";
  const logprobs = !chat ? request.logprobs : request.logprobs ? request.topLogprobs : null;
  return {
    chat,
    n,
    includeUsage,
    continuousUsage: includeUsage && (request.continuousUsageStats || server.forceIncludeUsage),
    streamInterval: Math.max(server.streamInterval, request.streamInterval ?? 1),
    onlyEcho: !chat && request.echo && request.maxTokens === 0,
    echo: !chat && request.echo,
    role,
    lastMessage: chat ? lastMessage(request, role) : "",
    chatEcho: chat && request.echo,
    logprobs,
    logprobIds: request.sampling.logprobTokenIds?.length ? request.sampling.logprobTokenIds.map(Number) : null,
    promptLogprobs: promptLogprobCount(request),
    returnTokenIds: request.returnTokenIds,
    weightVersions: request.weightVersions,
    beam: request.sampling.beamSearch,
    returnTokensAsTokenIds: request.returnTokensAsTokenIds ?? server.tokensAsIds === true,
    text: { skipSpecialTokens: shownSpecials(request, server), includeStopStrInOutput, stop, minTokens },
    namedTool: chat && typeof request.toolChoice === "object" && request.toolChoice !== null,
    parser: parserOf(request, server),
  };
}

/** What a parser reads is part of the text, special tokens too (`adjust_request` of the parsers). */
function shownSpecials(request: ChatRequest | CompletionRequest, { reasoning, tools }: Server): boolean {
  if (!request.skipSpecialTokens || request.kind !== "chat") return request.skipSpecialTokens;
  if (reasoning?.name === "qwen3") return false;
  if (!tools?.kind.showsSpecial || request.toolChoice === "none") return true;
  return request.tools === null && tools.kind.name !== "qwen3_coder";
}

function parserOf(request: ChatRequest | CompletionRequest, server: Server): ParserSetup | null {
  const { reasoning = null } = server;
  if (request.kind !== "chat" || (reasoning === null && !server.tools)) return null;
  return {
    reasoning,
    thinks: request.thinks,
    includeReasoning: request.includeReasoning,
    tools: callsOf(request, server),
  };
}

function callsOf(request: ChatRequest, { tools }: Server): ParserSetup["tools"] {
  if (!tools) return null;
  const use = toolUseOf(request, tools.autoEnabled);
  // Only /v1/responses has this field.
  const api = request.sampling.maxTokensParam === "max_output_tokens" ? "Responses" : "Chat";
  return () => new OutputParser(use, tools.kind.make(use), (how, called) => tools.parsed?.(how, called, api));
}

/** What takes the answer of a choice apart; null: nothing does. */
export function answerParser({ wishes, prompts }: Asked, index: number): AnswerParser | null {
  const prompt = prompts[Math.floor(index / wishes.n)]!;
  return wishes.parser && new AnswerParser(wishes.parser, prompt.thinkingIsOver === true);
}

/** Without `include_reasoning` neither log probabilities nor ids are shown: they would tell. */
export function hidesTokens({ parser }: Wishes): boolean {
  return parser !== null && !parser.includeReasoning;
}

/** Who speaks: with `add_generation_prompt` false it is the last message's role. */
function roleOf(request: ChatRequest, server: Server): string {
  return request.addGenerationPrompt ? server.responseRole : (request.messages.at(-1)?.role ?? server.responseRole);
}

/** Chat's `echo`: the last message, if the answer goes on with its role. "" for nothing. */
function lastMessage(request: ChatRequest, role: string): string {
  const last = request.messages.at(-1);
  return request.echo && last?.role === role ? (last.content ?? "") : "";
}

/** `prompt_logprobs`; echo with log probabilities asks for them too. */
export function promptLogprobCount(request: ChatRequest | CompletionRequest): number | null {
  if (request.promptLogprobs !== null) return request.promptLogprobs;
  if (!request.echo) return null;
  return request.kind === "chat" ? 0 : request.logprobs;
}

/** Who counts what becomes of a request; the first call decides. */
export interface Ticket {
  settle(outcome: Outcome): void;
}

/** One request and the answer's head. */
export interface Asked {
  readonly server: Server;
  readonly wishes: Wishes;
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
export function finishName({ namedTool }: Wishes, finish: Finish, called: boolean): string {
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

/** Which fields of a request shape its answer? Read once, before the engine gets the request. */

import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { ParserSetup } from "../tool-calls/answer-parser.ts";
import { OutputParser } from "../tool-calls/output-parser.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";
import { apiOf, isNamed, namedIsText, toolUseOf } from "./tool-use.ts";

/** Fields of a request that shape its answer. Thousands of answers run at a time, so the rest of the request is let go. */
export interface OutputOptions {
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
  readonly text: TextOptions;
  /** `tool_choice` names one. */
  readonly namedTool: boolean;
  /** null: the text is shown as it is. */
  readonly parser: ParserSetup | null;
}

/** What makes text of tokens. */
export interface TextOptions {
  readonly skipSpecialTokens: boolean;
  readonly includeStopStrInOutput: boolean;
  readonly stop: readonly string[];
  readonly minTokens: number;
}

/** `parts`: of an ordered answer; null: the server's parsers decide what is reasoning. */
export function outputOptions(
  request: ChatRequest | CompletionRequest,
  server: ServerTraits,
  parts: readonly AnswerPart[] | null = null,
): OutputOptions {
  const { n, stop, includeStopStrInOutput, minTokens } = request;
  const { answers } = server;
  const chat = request.kind === "chat";
  const includeUsage = request.includeUsage || answers.enableForceIncludeUsage;
  const role = chat ? roleOf(request, server) : "";
  const logprobs = !chat ? request.logprobs : request.logprobs ? request.topLogprobs : null;
  return {
    chat,
    n,
    includeUsage,
    continuousUsage: includeUsage && (request.continuousUsageStats || answers.enableForceIncludeUsage),
    streamInterval: Math.max(answers.streamInterval, request.streamInterval ?? 1),
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
    returnTokensAsTokenIds: request.returnTokensAsTokenIds ?? answers.tokensAsIds === true,
    text: { skipSpecialTokens: skipsSpecials(request, server), includeStopStrInOutput, stop, minTokens },
    namedTool: chat && isNamed(request),
    parser: parserOf(request, server, parts),
  };
}

/** What a parser reads is part of the text, special tokens too (`adjust_request` of the parsers). */
function skipsSpecials(request: ChatRequest | CompletionRequest, { reasoning, tools }: ServerTraits): boolean {
  if (!request.skipSpecialTokens || request.kind !== "chat") return request.skipSpecialTokens;
  if (reasoning?.name === "qwen3") return false;
  if (!tools?.kind.showsSpecial || request.toolChoice === "none") return true;
  return request.tools === null && !tools.kind.alwaysShowsSpecial;
}

function parserOf(
  request: ChatRequest | CompletionRequest,
  server: ServerTraits,
  parts: readonly AnswerPart[] | null,
): ParserSetup | null {
  const { reasoning } = server;
  if (request.kind !== "chat" || (reasoning === null && !server.tools && parts === null)) return null;
  return {
    reasoning,
    thinks: request.thinks,
    includeReasoning: request.includeReasoning,
    tools: callsOf(request, server),
    parts,
  };
}

function callsOf(request: ChatRequest, { tools }: ServerTraits): ParserSetup["tools"] {
  if (!tools) return null;
  const use = toolUseOf(request, tools.autoEnabled);
  if (namedIsText(request, tools)) return null;
  const api = apiOf(request);
  return () => new OutputParser(use, tools.kind.make(use), (how, called) => tools.parsed?.(how, called, api));
}

/** Without `include_reasoning` neither log probabilities nor ids are shown: they would tell. */
export function hidesTokens({ parser }: OutputOptions): boolean {
  return parser !== null && !parser.includeReasoning;
}

/** Who speaks: with `add_generation_prompt` false it is the last message's role. */
function roleOf(request: ChatRequest, server: ServerTraits): string {
  const { responseRole = "assistant" } = server.answers;
  return request.addGenerationPrompt ? responseRole : (request.messages.at(-1)?.role ?? responseRole);
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

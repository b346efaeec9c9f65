/** Reads the fields of a request that shape its answer, and its tools. Runs once per request, before the engine gets it. */

import { atOnce, mapped, type Pieces } from "../../../base/pieces.ts";
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { ParserSetup } from "../tool-calls/answer-parser.ts";
import type { ToolShape, ToolUse } from "../tool-calls/output.ts";
import { OutputParser } from "../tool-calls/output-parser.ts";
import type { ChatRequest, GenerationRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";

/** Fields of a request that shape its answer. The rest of a request is not kept, because thousands of answers run at once. */
export interface OutputOptions {
  readonly chat: boolean;
  readonly n: number;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly streamInterval: number;
  /** True for a completion with `echo` and no output tokens. */
  readonly onlyEcho: boolean;
  /** True for a completion with `echo`. */
  readonly echo: boolean;
  /** Role of the answer of a chat; "" for a completion. */
  readonly role: string;
  /** Text in front of the answer: the last message of a chat with `echo`, otherwise "". */
  readonly lastMessage: string;
  /** True for a chat with `echo`. Its content is then never null. */
  readonly chatEcho: boolean;
  /** Candidates per token, -1 for all. Null: no log probabilities. */
  readonly logprobs: number | null;
  /** Value of `logprob_token_ids`. Null: the most likely tokens are the candidates. */
  readonly logprobIds: readonly number[] | null;
  readonly promptLogprobs: number | null;
  readonly returnTokenIds: boolean;
  readonly weightVersions: boolean;
  readonly beam: boolean;
  readonly returnTokensAsTokenIds: boolean;
  readonly text: TextOptions;
  /** True if `tool_choice` names a tool. */
  readonly namedTool: boolean;
  /** Finds reasoning and tool calls in the text. Null: the whole text is content. */
  readonly parser: ParserSetup | null;
}

/** Options for turning tokens into text. */
export interface TextOptions {
  readonly skipSpecialTokens: boolean;
  readonly includeStopStrInOutput: boolean;
  readonly stop: readonly string[];
  readonly minTokens: number;
}

/** Returns the options of a request. `parts`: of an ordered answer. Null: the server's parsers decide what is reasoning. */
export function outputOptions(
  request: GenerationRequest,
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
    namedTool: chat && request.toolChoice !== null && isNamed(request),
    parser: parserOf(request, server, parts),
  };
}

/** Reports whether the text leaves out special tokens. It keeps them if a parser reads them (`adjust_request` of the parsers). */
function skipsSpecials(request: GenerationRequest, { tools }: ServerTraits): boolean {
  if (!request.skipSpecialTokens || request.kind !== "chat") return request.skipSpecialTokens;
  if (!tools?.kind.showsSpecial || request.toolChoice === "none") return true;
  return request.tools === null && !tools.kind.alwaysShowsSpecial;
}

function parserOf(
  request: GenerationRequest,
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

/** Returns a function that makes the parser of tool calls, or null if the text is not searched for calls. */
function callsOf(request: ChatRequest, { tools }: ServerTraits): ParserSetup["tools"] {
  if (!tools) return null;
  const use = toolUseOf(request, tools.autoEnabled);
  if (namedIsText(request, tools)) return null;
  const api = apiOf(request);
  return () => new OutputParser(use, tools.kind.make(use), (how, called) => tools.parsed?.(how, called, api));
}

/** Reports whether log probabilities and ids are left out, because they would reveal reasoning that the client does not want. */
export function hidesTokens({ parser }: OutputOptions): boolean {
  return parser !== null && !parser.includeReasoning;
}

/** Returns the role of the answer. If `add_generation_prompt` is false, it is that of the last message. */
function roleOf(request: ChatRequest, server: ServerTraits): string {
  const { responseRole = "assistant" } = server.answers;
  return request.addGenerationPrompt ? responseRole : (request.messages.at(-1)?.role ?? responseRole);
}

/** Returns the last message of a chat with `echo`, if the answer has its role. Otherwise "". */
function lastMessage(request: ChatRequest, role: string): string {
  const last = request.messages.at(-1);
  return request.echo && last?.role === role ? (last.content ?? "") : "";
}

/** Returns the candidates per prompt token, or null for none. `echo` with log probabilities asks for them too. */
export function promptLogprobCount(request: GenerationRequest): number | null {
  if (request.promptLogprobs !== null) return request.promptLogprobs;
  if (!request.echo) return null;
  return request.kind === "chat" ? 0 : request.logprobs;
}

/** Returns the tools of a request and the rules for calling them. `autoEnabled`: value of `--enable-auto-tool-choice`. */
export function toolUseOf(
  {
    tools,
    toolChoice: choice,
    parallelToolCalls: parallel,
  }: Pick<ChatRequest, "tools" | "toolChoice" | "parallelToolCalls">,
  autoEnabled: boolean,
): ToolUse {
  return { tools: shapesOf(tools), choice, parallel, autoEnabled };
}

type Tools = readonly unknown[];

/** Shapes by list of tools. Kept because the parser, the constraint and the plan of a request need the same ones. */
const shapes = new WeakMap<Tools, readonly ToolShape[]>();

function shapesOf(tools: Tools | null): readonly ToolShape[] {
  return tools === null ? [] : atOnce(toolShapes(tools));
}

/** Returns the shapes of tools. Makes them in pieces on the first call, because there may be a hundred thousand. */
export function* toolShapes(tools: Tools): Pieces<readonly ToolShape[]> {
  const made = shapes.get(tools) ?? (yield* mapped(tools, shapeOf));
  shapes.set(tools, made);
  return made;
}

function shapeOf(tool: unknown): ToolShape {
  const { function: shape } = tool as { readonly function: { readonly name: string; readonly parameters?: unknown } };
  return { name: shape.name, parameters: shape.parameters ?? null };
}

/** Counts the tool calls of the conversation so far, because some formats number them. */
export function callsBefore({ messages }: Pick<ChatRequest, "messages">): number {
  return messages.reduce((sum, { toolCalls }) => sum + (toolCalls?.length ?? 0), 0);
}

/** Reports whether `tool_choice` names a tool. */
export function isNamed({ toolChoice }: ChatRequest): boolean {
  return typeof toolChoice === "object" && toolChoice !== null;
}

/** Returns the API that a chat came from. */
export function apiOf({ sampling }: ChatRequest): "Responses" | "Chat" {
  // Only /v1/responses has this field.
  return sampling.maxTokensParam === "max_output_tokens" ? "Responses" : "Chat";
}

/** Reports whether the text of a named call is not parsed: in a chat the whole text becomes the call, a response parses it. */
export function namedIsText(request: ChatRequest, tools: NonNullable<ServerTraits["tools"]>): boolean {
  return tools.namedIsText === true && apiOf(request) === "Chat" && isNamed(request);
}

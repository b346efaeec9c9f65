/**
 * Writes answers to chats and completions byte for byte like vLLM 0.33 (`chat_completion/serving.py`,
 * `completion/serving.py`). Which null fields are written and which are left out differs between the kinds of chunks.
 */

import type { Ids } from "../../../base/random.ts";
import type { Finish } from "../../../engine/interface/types.ts";
import { escapeJson, quotedJson } from "../../../text/tokens/vocabulary.ts";
import { ChunkedForm } from "../../openai/pipeline/chunked-form.ts";
import { cacheUse, promptOf } from "../../openai/pipeline/context.ts";
import type { ChoiceSoFar, Piece, WholeChoice } from "../../openai/pipeline/form.ts";
import { type LongTexts, SHORT_CANDIDATES } from "../../openai/pipeline/long-body.ts";
import { paused, pausedInChatStream } from "../../openai/request/errors.ts";
import type { TextParts } from "../../openai/request/logprobs.ts";
import { hidesTokens } from "../../openai/request/output-options.ts";
import type { CommonRequest } from "../../openai/request/request.ts";
import type { Delta } from "../../openai/tool-calls/output.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import {
  candidatesOf,
  chatBody,
  completionBody,
  completionDetails,
  finishName,
  stopReason,
  weightVersions,
} from "./answer-body.ts";
import { COPIED_NULL, chatStreamError, completionStreamError, DONE, deltaJson } from "./chunks.ts";
import { idParts, weightOfIds } from "./prompt-ids.ts";

const encoder = new TextEncoder();
const CHAT = { idPrefix: "chatcmpl", object: "chat.completion.chunk" };
const COMPLETION = { idPrefix: "cmpl", object: "text_completion" };
const CHAT_TAIL = `},"logprobs":null,"finish_reason":null,"token_ids":null}],"kv_transfer_params":null}\n\n`;
const CHAT_SUFFIX = encoder.encode(`"${CHAT_TAIL}`);
const COPIED_SUFFIX = encoder.encode(`"${COPIED_NULL}${CHAT_TAIL}`);
const NO_TEXT: Delta = { calls: [] };
const COMPLETION_SUFFIX = encoder.encode(
  `","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null,"weight_versions":null}],"kv_transfer_params":null}\n\n`,
);

/** The parts of an event in their order. Long parts are made piece by piece. */
type EventParts = readonly (string | TextParts)[];

/** Yields all parts of an event. */
function* joined(parts: EventParts): Generator<string, void> {
  for (const part of parts)
    if (typeof part === "string") yield part;
    else yield* part;
}

/** The common part of both forms. Keeps only the ID of the request, so that the rest can be freed. */
abstract class OpenAiForm extends ChunkedForm {
  readonly namesEnds = true;
  readonly keepAlive = ": keep-alive\n\n";
  readonly opensBeforeError = true;
  readonly #kind: typeof CHAT;
  readonly #requestId: string | null;
  /** Start of all chunks, made once. */
  #head: string | null = null;

  constructor(kind: typeof CHAT, { requestId }: Pick<CommonRequest, "requestId">) {
    super();
    this.#kind = kind;
    this.#requestId = requestId;
  }

  id(header: string | null, newId: Ids): string {
    return `${this.#kind.idPrefix}-${header ?? this.#requestId ?? newId(8)}`;
  }

  abstract override failed(error: ErrorAnswer): readonly string[];
  /** Returns the event of an output, or null if it has none. */
  protected abstract parts(piece: Piece): EventParts | null;
  /** Returns the number of tokens whose log probabilities the event of an output can show. */
  protected abstract shownTokens(piece: Piece): number;
  /** Returns the prompt's token IDs if the event of an output shows them, else null. */
  protected abstract shownIds(piece: Piece): Uint32Array | null;

  piece(piece: Piece): readonly string[] {
    const parts = this.parts(piece);
    if (parts === null) return [];
    let event = "";
    for (const part of parts) event += typeof part === "string" ? part : [...part].join("");
    return [event];
  }

  longPiece(piece: Piece): Iterator<string, void> | null {
    const ids = this.shownIds(piece);
    if (piece.logprobs === null && ids === null) return null;
    const { output, server } = this.context;
    const candidates = output.logprobIds?.length ?? output.logprobs;
    const each = piece.logprobs === null ? 0 : candidatesOf(candidates!, server.vocabulary.size);
    const weight = this.shownTokens(piece) * each + (ids === null ? 0 : weightOfIds(ids));
    return weight > SHORT_CANDIDATES ? joined(this.parts(piece)!) : null;
  }

  ended(choices: readonly ChoiceSoFar[]): readonly string[] {
    return this.context.output.includeUsage ? [this.#usageChunk(choices), DONE] : [DONE];
  }

  /** The start of all chunks, up to the choices. */
  protected get head(): string {
    const { id, created, model } = this.context;
    this.#head ??= `data: {"id":${quotedJson(id)},"object":"${this.#kind.object}","created":${created},"model":${quotedJson(model)},"choices":[`;
    return this.#head;
  }

  /** Returns the JSON of `finish_reason`, which is null while the choice runs. */
  protected reason({ finish, named, called }: ChoiceSoFar): string {
    return finish === null ? "null" : `"${named ?? finishName(this.context.output, finish, called)}"`;
  }

  /** Returns the end of a chunk after its choices. A choice's last chunk has the fingerprint, unless a usage chunk follows. */
  protected foot(usage: string, finish: Finish | null): string {
    const fingerprint = finish === null || this.context.output.includeUsage ? "" : this.#fingerprint;
    return `]${usage}${fingerprint},"kv_transfer_params":null}\n\n`;
  }

  get #fingerprint(): string {
    const { fingerprint } = this.context.server;
    return fingerprint === null ? "" : `,"system_fingerprint":${quotedJson(fingerprint)}`;
  }

  #usageChunk(choices: readonly ChoiceSoFar[]): string {
    const { output, server, queuedUs } = this.context;
    const { prompt, completion } = this.tokensOf(choices);
    const { submission, times } = choices[0]!;
    let details = "";
    if (server.answers.enablePromptTokensDetails) {
      const { cached, made } = cacheUse(this.context, submission);
      details = `,"prompt_tokens_details":{"cached_tokens":${cached}${output.chat ? `,"created_cache_tokens":${made}` : ""}}`;
    }
    const thoughts = this.reasoningTokens(choices);
    if (thoughts !== null) details += `,"completion_tokens_details":${completionDetails(thoughts)}`;
    const timesText = times?.text(queuedUs, completion, submission, false);
    const metrics = timesText === undefined ? "" : `,"metrics":${timesText}`;
    return `${this.head}],"usage":{${counts(prompt, completion)}${details}}${this.#fingerprint}${metrics}}\n\n`;
  }

  /** Returns the reasoning tokens of all choices, or null without a reasoning parser. */
  protected reasoningTokens(choices: readonly ChoiceSoFar[]): number | null {
    if (!this.context.output.parser?.reasoning) return null;
    return choices.reduce((sum, { reasoningTokens }) => sum + (reasoningTokens ?? 0), 0);
  }
}

/** Writes the answer to a chat. */
export class ChatForm extends OpenAiForm {
  constructor(request: Pick<CommonRequest, "requestId">) {
    super(CHAT, request);
  }

  protected get suffix(): Uint8Array {
    return this.context.server.answers.reasoningField === "both" ? COPIED_SUFFIX : CHAT_SUFFIX;
  }

  /** The end of a delta of plain text: `reasoning_content` if the server writes both names of reasoning, else "". */
  get #copied(): string {
    return this.context.server.answers.reasoningField === "both" ? COPIED_NULL : "";
  }

  opening(): readonly string[] {
    const { output, prompts, promptText } = this.context;
    const usage = this.#usage(prompts[0]!.tokens, 0, this.reasoningTokens([]));
    const promptIds = output.returnTokenIds ? prompts[0]!.ids : null;
    const ids = promptIds === null ? "null" : [...idParts(promptIds)].join("");
    const text = JSON.stringify(promptText);
    const role = quotedJson(output.role);
    const events: string[] = [];
    const count = prompts.length * output.n;
    for (let index = 0; index < count; index++)
      events.push(
        `${this.head}{"index":${index},"delta":{"role":${role},"content":""${this.#copied}},"logprobs":null,"finish_reason":null}]${usage},"prompt_token_ids":${ids},"prompt_text":${text}}\n\n`,
      );
    if (output.lastMessage === "") return events;
    const echo = escapeJson(output.lastMessage);
    for (let index = 0; index < count; index++)
      events.push(`${this.prefix(index)}${echo}"${this.#copied}},"logprobs":null,"finish_reason":null}]${usage}}\n\n`);
    return events;
  }

  protected parts({ choice, delta, ids, from, logprobs }: Piece): EventParts | null {
    const { index, finish, stop, tokens, reasoningTokens } = choice;
    const { output, server } = this.context;
    const showsIds = output.returnTokenIds && !hidesTokens(output);
    if (delta === null && finish === null && logprobs === null && !showsIds) return null;
    const usage = this.#usage(promptOf(this.context, index).tokens, tokens, reasoningTokens);
    const more = `,"token_ids":${showsIds ? JSON.stringify(ids) : "null"}`;
    const end = finish === null ? "" : `,"stop_reason":${stopReason(finish, stop)}`;
    const versions = finish === null ? "" : `,"weight_versions":${weightVersions(output, tokens)}`;
    return [
      `${this.head}{"index":${index},"delta":${deltaJson(delta ?? NO_TEXT, server.answers.reasoningField)},"logprobs":`,
      logprobs?.chatParts(ids, from) ?? "null",
      `,"finish_reason":${this.reason(choice)}${end}${more}${versions}}${this.foot(usage, finish)}`,
    ];
  }

  protected shownTokens({ ids }: Piece): number {
    return ids.length;
  }

  protected shownIds(): null {
    return null;
  }

  failed(error: ErrorAnswer): readonly string[] {
    return [chatStreamError(error === paused ? pausedInChatStream : error), DONE];
  }

  whole(choices: readonly WholeChoice[], long: LongTexts): string {
    return chatBody(this.context, choices, long);
  }

  protected prefix(index: number): string {
    return `${this.head}{"index":${index},"delta":{"content":"`;
  }

  /** Returns the usage of one chunk, or "" without `continuous_usage_stats`. */
  #usage(promptTokens: number, tokens: number, reasoningTokens: number | null): string {
    if (!this.context.output.continuousUsage) return "";
    return `,"usage":{${counts(promptTokens, tokens)},"completion_tokens_details":${completionDetails(reasoningTokens)}}`;
  }
}

/** Writes the answer to a completion. */
export class CompletionForm extends OpenAiForm {
  protected readonly suffix = COMPLETION_SUFFIX;

  constructor(request: Pick<CommonRequest, "requestId">) {
    super(COMPLETION, request);
  }

  protected shownTokens({ choice, ids, from }: Piece): number {
    return ids.length + (from === 0 && this.context.output.echo ? promptOf(this.context, choice.index).tokens : 0);
  }

  protected shownIds({ choice, from }: Piece): Uint32Array | null {
    const { echo, returnTokenIds } = this.context.output;
    return from === 0 && (echo || returnTokenIds) ? promptOf(this.context, choice.index).ids : null;
  }

  protected parts(piece: Piece): EventParts {
    const { choice, delta, ids: newIds, from, logprobs } = piece;
    const { index, finish, stop, tokens } = choice;
    const { output } = this.context;
    const { onlyEcho, echo, returnTokenIds, continuousUsage } = output;
    const prompt = promptOf(this.context, index);
    const echoes = from === 0 && echo;
    const ids = onlyEcho ? [] : newIds;
    let text = onlyEcho ? "" : (delta?.content ?? "");
    if (echoes && !returnTokenIds) text = (prompt.echo ?? "") + text;
    const promptIds = this.shownIds(piece);
    const usage = continuousUsage ? `,"usage":{${counts(prompt.tokens, tokens)}}` : "";
    const versions = finish === null ? "null" : weightVersions(output, tokens);
    return [
      `${this.prefix(index)}${escapeJson(text)}","logprobs":`,
      logprobs?.completionParts(ids, from, echoes ? (prompt.ids ?? []) : []) ?? "null",
      `,"finish_reason":${this.reason(choice)},"stop_reason":${stopReason(finish, stop)},"prompt_token_ids":`,
      promptIds === null ? "null" : idParts(promptIds),
      `,"token_ids":${returnTokenIds ? JSON.stringify(ids) : "null"},"weight_versions":${versions}}${this.foot(usage, finish)}`,
    ];
  }

  failed(error: ErrorAnswer): readonly string[] {
    return [completionStreamError(error), DONE];
  }

  whole(choices: readonly WholeChoice[], long: LongTexts): string {
    return completionBody(this.context, choices, long);
  }

  protected prefix(index: number): string {
    return `${this.head}{"index":${index},"text":"`;
  }
}

/** Returns the members of `usage` with the numbers of tokens. */
function counts(prompt: number, completion: number): string {
  return `"prompt_tokens":${prompt},"total_tokens":${prompt + completion},"completion_tokens":${completion}`;
}

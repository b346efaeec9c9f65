/** How are the answers to chats and completions written? vLLM 0.33, `chat_completion/serving.py` and `completion/serving.py`. */
import { randomHex } from "../../random.ts";
import { paused, pausedInChatStream } from "../errors.ts";
import type { ChoiceSoFar, Form, Frame, Piece, WholeChoice } from "../form.ts";
import type { CommonRequest, ErrorAnswer } from "../request.ts";
import { chatBody, completionBody, finishName, stopReason, weightVersions } from "./answer-body.ts";
import { type AnswerContext, cacheUse, promptOf } from "./answer-context.ts";
import { ChatChunks, type Chunks, CompletionChunks, chatStreamError, completionStreamError, DONE } from "./chunks.ts";
import { hidesTokens } from "./output-options.ts";

const encoder = new TextEncoder();
const NO_DELTA = { calls: [] };

/** What both have in common. */
abstract class OpenAiForm<C extends Chunks> implements Form {
  readonly namesEnds = true;
  readonly keepAlive = ": keep-alive\n\n";
  readonly opensBeforeError = true;
  protected context!: AnswerContext;
  protected abstract readonly idPrefix: string;
  #chunks: C | null = null;
  readonly #requestId: string | null;

  /** Of the request nothing is kept but the id that it names. */
  constructor({ requestId }: Pick<CommonRequest, "requestId">) {
    this.#requestId = requestId;
  }

  id(header: string | null): string {
    return `${this.idPrefix}-${header ?? this.#requestId ?? randomHex(8)}`;
  }

  accepted(context: AnswerContext): readonly string[] {
    this.context = context;
    return [];
  }

  protected abstract makeChunks(identity: ConstructorParameters<typeof ChatChunks>[0]): C;

  protected get chunks(): C {
    const { id, created, model, server, output } = this.context;
    const { includeUsage } = output;
    this.#chunks ??= this.makeChunks({ id, created, model, fingerprint: server.fingerprint, includeUsage });
    return this.#chunks;
  }

  abstract opening(): readonly string[];
  abstract piece(piece: Piece): readonly string[];
  abstract failed(error: ErrorAnswer): readonly string[];
  abstract whole(choices: readonly WholeChoice[]): string;

  frame(index: number): Frame | null {
    const { returnTokenIds, continuousUsage } = this.context.output;
    if (returnTokenIds || continuousUsage) return null;
    const { chunks } = this;
    return { prefix: encoder.encode(chunks.prefix(index)), suffix: chunks.suffix, showsEmpty: true };
  }

  /** A chunk with what a piece carries besides its text. */
  protected chunk({ choice, delta }: Piece, logprobs: string, tokenIds: string, promptTokenIds: string): string {
    const { context, chunks } = this;
    const { index, finish, named, stop, called, tokens, reasoningTokens } = choice;
    const { output } = context;
    return chunks.chunk(index, delta ?? NO_DELTA, {
      logprobs,
      tokenIds,
      promptTokenIds,
      finishReason: finish === null ? null : (named ?? finishName(output, finish, called)),
      stopReason: stopReason(finish, stop),
      weightVersions: finish === null ? "null" : weightVersions(output, tokens),
      usage: output.continuousUsage ? chunks.usage(promptOf(context, index).tokens, tokens, reasoningTokens) : "",
    });
  }

  ended(choices: readonly ChoiceSoFar[]): readonly string[] {
    return this.context.output.includeUsage ? [this.#usageChunk(choices), DONE] : [DONE];
  }

  refused(error: ErrorAnswer): ErrorAnswer {
    return error;
  }

  dropped(): void {}

  #usageChunk(choices: readonly ChoiceSoFar[]): string {
    const { output, server, prompts, queuedUs } = this.context;
    const promptTokens = prompts.reduce((sum, { tokens }) => sum + tokens, 0);
    const completionTokens = choices.reduce((sum, { tokens }) => sum + tokens, 0);
    const { submission, times } = choices[0]!;
    let details = "";
    if (server.promptTokensDetails) {
      const { cached, made } = cacheUse(this.context, submission);
      details = `{"cached_tokens":${cached}${output.chat ? `,"created_cache_tokens":${made}` : ""}}`;
    }
    const metrics = times?.text(queuedUs, completionTokens, submission, false) ?? "";
    return this.chunks.usageChunk(promptTokens, completionTokens, this.reasoningTokens(choices), details, metrics);
  }

  /** Reasoning tokens of all choices; null without a reasoning parser. */
  protected reasoningTokens(choices: readonly ChoiceSoFar[]): number | null {
    if (!this.context.output.parser?.reasoning) return null;
    return choices.reduce((sum, { reasoningTokens }) => sum + (reasoningTokens ?? 0), 0);
  }
}

export class ChatForm extends OpenAiForm<ChatChunks> {
  protected readonly idPrefix = "chatcmpl";

  protected makeChunks(identity: ConstructorParameters<typeof ChatChunks>[0]): ChatChunks {
    return new ChatChunks(identity);
  }

  opening(): readonly string[] {
    const { output, prompts, promptText } = this.context;
    const { chunks } = this;
    const usage = output.continuousUsage ? chunks.usage(prompts[0]!.tokens, 0, this.reasoningTokens([])) : "";
    const ids = output.returnTokenIds ? JSON.stringify(prompts[0]!.ids) : "null";
    const text = promptText === null ? "null" : JSON.stringify(promptText);
    const indices = Array.from({ length: prompts.length * output.n }, (_, index) => index);
    const roles = indices.map((index) => chunks.role(index, output.role, usage, ids, text));
    if (output.lastMessage === "") return roles;
    return [...roles, ...indices.map((index) => chunks.echo(index, output.lastMessage, usage))];
  }

  piece(piece: Piece): readonly string[] {
    const { choice, delta, ids, from, logprobs } = piece;
    const { output } = this.context;
    const showsIds = output.returnTokenIds && !hidesTokens(output);
    if (delta === null && choice.finish === null && logprobs === null && !showsIds) return [];
    const tokenIds = showsIds ? JSON.stringify(ids) : "null";
    return [this.chunk(piece, logprobs?.chat(ids, from) ?? "null", tokenIds, "null")];
  }

  failed(error: ErrorAnswer): readonly string[] {
    return [chatStreamError(error === paused ? pausedInChatStream : error), DONE];
  }

  whole(choices: readonly WholeChoice[]): string {
    return chatBody(this.context, choices);
  }
}

export class CompletionForm extends OpenAiForm<CompletionChunks> {
  protected readonly idPrefix = "cmpl";

  protected makeChunks(identity: ConstructorParameters<typeof CompletionChunks>[0]): CompletionChunks {
    return new CompletionChunks(identity);
  }

  opening(): readonly string[] {
    return [];
  }

  piece(piece: Piece): readonly string[] {
    const { choice, from, logprobs } = piece;
    const { onlyEcho, echo, returnTokenIds } = this.context.output;
    const prompt = promptOf(this.context, choice.index);
    const first = from === 0;
    const echoes = first && echo;
    const ids = onlyEcho ? [] : piece.ids;
    let text = onlyEcho ? "" : (piece.delta?.content ?? "");
    if (echoes && !returnTokenIds) text = (prompt.echo ?? "") + text;
    const shown = { ...piece, delta: { content: text, calls: [] } };
    const tokenIds = returnTokenIds ? JSON.stringify(ids) : "null";
    const promptTokenIds = first && (echo || returnTokenIds) ? JSON.stringify(prompt.ids) : "null";
    const probabilities = logprobs?.completion(ids, from, echoes ? (prompt.ids ?? []) : []) ?? "null";
    return [this.chunk(shown, probabilities, tokenIds, promptTokenIds)];
  }

  failed(error: ErrorAnswer): readonly string[] {
    return [completionStreamError(error), DONE];
  }

  whole(choices: readonly WholeChoice[]): string {
    return completionBody(this.context, choices);
  }
}

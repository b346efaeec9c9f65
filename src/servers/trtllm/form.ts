/**
 * Writes the answers to chats and completions, as `postprocess_handlers.py` and `openai_protocol.py` of version 1.3 do. Chunks
 * of a chat omit members that are null. Chunks of a completion and whole answers contain these members.
 */

import type { Ids } from "../../base/random.ts";
import { Finish } from "../../engine/interface/types.ts";
import type { ReasoningField } from "../../text/grammar/parsers.ts";
import { escapeJson } from "../../text/tokens/vocabulary.ts";
import { ChunkedForm } from "../openai/pipeline/chunked-form.ts";
import { type AnswerContext, FINISH_NAMES, promptOf } from "../openai/pipeline/context.ts";
import type { ChoiceSoFar, Piece, WholeChoice } from "../openai/pipeline/form.ts";
import type { TextParts } from "../openai/request/logprobs.ts";
import { hidesTokens } from "../openai/request/output-options.ts";
import type { Delta, Message } from "../openai/tool-calls/output.ts";
import type { ErrorAnswer } from "../pydantic/refusals.ts";
import { wholeCall } from "../vllm/openai/answer-body.ts";
import { callJson, DONE } from "../vllm/openai/chunks.ts";
import { asTrtllm } from "./errors.ts";

const encoder = new TextEncoder();
const CHAT = { idPrefix: "chatcmpl", object: "chat.completion.chunk" };
const COMPLETION = { idPrefix: "cmpl", object: "text_completion" };
/** Average number of tokens per iteration: always 1, because there is no speculative decoding. */
const PER_ITER = '"avg_decoded_tokens_per_iter":1.0';
const FIELDS: Readonly<Record<ReasoningField, readonly string[]>> = {
  reasoning: ["reasoning"],
  reasoning_content: ["reasoning_content"],
  both: ["reasoning_content", "reasoning"],
};
/** Returns the members for reasoning text. Without a reasoning parser the text is empty. */
const reasoningMembers = (field: ReasoningField, text: string) =>
  FIELDS[field].map((name) => `"${name}":"${escapeJson(text)}"`).join(",");
const suffixOf = (field: ReasoningField) => encoder.encode(`",${reasoningMembers(field, "")}},${PER_ITER}}]}\n\n`);
const CHAT_SUFFIXES = {
  reasoning: suffixOf("reasoning"),
  reasoning_content: suffixOf("reasoning_content"),
  both: suffixOf("both"),
};
const CALL_SUFFIX = encoder.encode(`"}}]},${PER_ITER}}]}\n\n`);
const COMPLETION_SUFFIX = encoder.encode(
  `","token_ids":null,"logprobs":null,"finish_reason":null,"stop_reason":null,${PER_ITER}}],"usage":null}\n\n`,
);

/** Facts about a request that its answer contains. */
interface AnswerIdentity {
  /** Name of the model as in the request. */
  readonly model: string;
  readonly stream: boolean;
  /** Name of the served model. */
  readonly served: string;
  /** Returns the number of the next request, which becomes part of the id of a streamed answer. */
  readonly nextId: () => number;
}

abstract class TrtllmForm extends ChunkedForm {
  readonly #kind: typeof CHAT;
  readonly #identity: AnswerIdentity;
  /**
   * First bytes of the chunks, one entry per prompt. Each prompt has its own id, because the real server handles it as a
   * separate request.
   */
  #heads: readonly string[] = [];

  constructor(kind: typeof CHAT, identity: AnswerIdentity) {
    super();
    this.#kind = kind;
    this.#identity = identity;
  }

  /** Returns the id of an answer: the number of the request if streamed, otherwise 32 random hexadecimal digits. */
  id(_: string | null, newId: Ids): string {
    const { stream, nextId } = this.#identity;
    return `${this.#kind.idPrefix}-${stream ? nextId() : newId(16)}`;
  }

  override accepted(context: AnswerContext): readonly string[] {
    const events = super.accepted(context);
    if (!this.#identity.stream) return events;
    this.#heads = context.prompts.map((_, prompt) => {
      const id = prompt === 0 ? context.id : this.id(null, context.newId);
      return `data: ${this.start(this.#kind.object, id)}`;
    });
    return events;
  }

  ended(choices: readonly ChoiceSoFar[]): readonly string[] {
    return [...this.usageEvents(choices), DONE];
  }

  /** Returns the usage events that are sent after all choices have ended. */
  protected usageEvents(choices: readonly ChoiceSoFar[]): readonly string[] {
    return this.context.output.includeUsage ? [`${this.head(0)}],"usage":${this.usageOf(choices)}}\n\n`] : [];
  }

  /** Returns the events that report an error in a stream: null, because the real server closes the connection without one. */
  failed(): null {
    return null;
  }

  refused(error: ErrorAnswer): ErrorAnswer {
    return asTrtllm(error);
  }

  /** Returns the first bytes of the chunks of a choice. */
  protected head(index: number): string {
    return this.#heads[Math.floor(index / this.context.output.n)]!;
  }

  /**
   * Returns the first bytes of an answer. `several`: true if the answer joins the answers to several prompts. Such an answer
   * names the served model instead of the requested model.
   */
  protected start(object: string, id = this.context.id, several = false): string {
    const { created } = this.context;
    const { model, served } = this.#identity;
    const shown = JSON.stringify(several ? served : model);
    return `{"id":${JSON.stringify(id)},"object":"${object}","created":${created},"model":${shown},"choices":[`;
  }

  /** Returns the usage of all choices of an answer as JSON, in sum. */
  protected usageOf(choices: readonly ChoiceSoFar[]): string {
    const { prompt, completion } = this.tokensOf(choices);
    const { n } = this.context.output;
    const firsts = choices.filter((_, index) => index % n === 0);
    const cached = firsts.reduce((sum, { submission }) => sum + (submission?.cachedTokens ?? 0), 0);
    return usage(prompt, completion, cached);
  }

  /** Returns the usage member of a chunk. Empty unless the request sets `continuous_usage_stats`. */
  protected usageSoFar({ index, tokens, submission }: ChoiceSoFar): string {
    if (!this.context.output.continuousUsage) return "";
    return `,"usage":${usage(promptOf(this.context, index).tokens, tokens, submission?.cachedTokens ?? 0)}`;
  }
}

export class TrtllmChatForm extends TrtllmForm {
  /**
   * The tool that `tool_choice` names. The generated text becomes the arguments of a call of this tool. Null if no tool is
   * named.
   */
  readonly #tool: { readonly name: string } | null;

  constructor(identity: AnswerIdentity, tool: { readonly name: string } | null) {
    super(CHAT, identity);
    this.#tool = tool;
  }

  protected get suffix(): Uint8Array {
    return this.#tool === null ? CHAT_SUFFIXES[this.#field] : CALL_SUFFIX;
  }

  /** Names of the members that carry reasoning text. */
  get #field(): ReasoningField {
    return this.context.server.answers.reasoningField ?? "reasoning_content";
  }

  /**
   * Returns the first event of each choice, which has the role. Like the real server, ends it with a space before the line end.
   * With `echo`, each choice gets a second event with the last message of the request.
   */
  opening([first]: readonly ChoiceSoFar[]): readonly string[] {
    const { output, prompts } = this.context;
    const indices = Array.from({ length: output.n }, (_, index) => index);
    const cached = first!.submission?.cachedTokens ?? 0;
    const more = output.continuousUsage ? `,"usage":${usage(prompts[0]!.tokens, 0, cached)}` : "";
    const event = (index: number, delta: string) =>
      `${this.head(index)}{"index":${index},"delta":{${delta}}}]${more}} \n\n`;
    const roles = indices.map((index) => event(index, `"role":${JSON.stringify(output.role)}`));
    if (output.lastMessage === "") return roles;
    return [...roles, ...indices.map((index) => event(index, `"content":"${escapeJson(output.lastMessage)}"`))];
  }

  piece(piece: Piece): readonly string[] {
    const { choice, delta, ids, from, logprobs } = piece;
    const { index, finish, stop } = choice;
    const shown = logprobs?.chat(ids, from);
    const end = finish === null ? "" : `,"finish_reason":"${finishName(finish, choice.called)}"${stopMember(stop)}`;
    return [
      `${this.head(index)}{"index":${index},"delta":{${this.#delta(index, delta)}}${shown === undefined ? "" : `,"logprobs":${shown}`}${end}` +
        `,${PER_ITER}}]${this.usageSoFar(choice)}}\n\n`,
    ];
  }

  whole(choices: readonly WholeChoice[]): string {
    const list = choices.map((choice) => this.#choice(choice));
    return `${this.start("chat.completion")}${list}],"usage":${this.usageOf(choices)},"prompt_token_ids":null,"prompt_token_ids_b64":null}`;
  }

  #delta(index: number, delta: Delta | null): string {
    return this.#tool === null
      ? deltaMembers(delta, this.#field)
      : `${this.#callHead(index)}${escapeJson(delta?.content ?? "")}"}}]`;
  }

  /** Returns the first bytes of a tool call, up to its arguments. The call has no id, and its index is that of the choice. */
  #callHead(index: number): string {
    const name = JSON.stringify(this.#tool!.name);
    return `"tool_calls":[{"type":"function","index":${index},"function":{"name":${name},"arguments":"`;
  }

  /**
   * Returns the message of a choice. If `tool_choice` names a tool, the text becomes a call, but the finish reason stays that
   * of a text.
   */
  #message(choice: WholeChoice): Message & { readonly finish: string } {
    const message = choice.message();
    const finish = finishName(choice.finish!, message.calls.length > 0);
    if (this.#tool === null) return { ...message, reasoning: message.reasoning ?? "", finish };
    const call = {
      id: `chatcmpl-tool-${this.context.newId(16)}`,
      name: this.#tool.name,
      arguments: message.content ?? "",
    };
    return { content: "", reasoning: null, calls: [call], finish };
  }

  #choice(choice: WholeChoice): string {
    const { output } = this.context;
    const { ids } = choice; // read before the call of `message`, which clears the ids
    const { content, reasoning, calls, finish } = this.#message(choice);
    const shown = (!hidesTokens(output) && choice.logprobs()?.chat(ids, 0)) || "null";
    return (
      `{"index":${choice.index},"message":{"role":${JSON.stringify(output.role)},"content":${JSON.stringify(output.lastMessage + (content ?? ""))}` +
      `,${this.#messageReasoning(reasoning)},"tool_calls":[${calls.map(wholeCall)}]},"logprobs":${shown}` +
      `,"finish_reason":"${finish}","stop_reason":${JSON.stringify(choice.stop)}` +
      `,"mm_embedding_handle":null,"disaggregated_params":null,${PER_ITER}}`
    );
  }

  /** Returns both members for reasoning text. The member that this server does not use is null. */
  #messageReasoning(reasoning: string | null): string {
    const used = FIELDS[this.#field];
    return FIELDS.both.map((name) => `"${name}":${used.includes(name) ? JSON.stringify(reasoning) : "null"}`).join(",");
  }

  protected prefix(index: number): string {
    const begin = this.#tool === null ? '"content":"' : this.#callHead(index);
    return `${this.head(index)}{"index":${index},"delta":{${begin}`;
  }
}

export class TrtllmCompletionForm extends TrtllmForm {
  protected readonly suffix = COMPLETION_SUFFIX;
  /** The choices that have ended, a list for each prompt. Empty unless each prompt gets its own usage event (`#tellsPrompts`). */
  readonly #ended: ChoiceSoFar[][] = [];

  constructor(identity: AnswerIdentity) {
    super(COMPLETION, identity);
  }

  piece(piece: Piece): readonly string[] {
    const { choice } = piece;
    const event = this.#chunk(piece);
    if (choice.finish === null || !this.#tellsPrompts) return [event];
    const { n } = this.context.output;
    const prompt = Math.floor(choice.index / n);
    this.#ended[prompt] ??= [];
    const ended = this.#ended[prompt];
    ended.push(choice);
    return ended.length < n ? [event] : [event, this.#usageEvent(ended)];
  }

  /** True if each prompt gets its own usage event after its last choice: in a stream with usage for several prompts. */
  get #tellsPrompts(): boolean {
    return this.context.output.includeUsage && this.context.prompts.length > 1;
  }

  #usageEvent(choices: readonly ChoiceSoFar[]): string {
    const { n } = this.context.output;
    // The cached tokens of the prompt's first choice count, as in a whole answer, even if another choice ended earlier.
    const { index, submission } = choices.find((one) => one.index % n === 0)!;
    const completion = choices.reduce((sum, { tokens }) => sum + tokens, 0);
    const told = usage(promptOf(this.context, index).tokens, completion, submission?.cachedTokens ?? 0);
    return `${this.head(index)}],"usage":${told}}\n\n`;
  }

  /**
   * Returns the usage events at the end of a stream. With several prompts, these are the events of prompts with a choice that
   * sent no last piece.
   */
  protected override usageEvents(choices: readonly ChoiceSoFar[]): readonly string[] {
    if (!this.#tellsPrompts) return super.usageEvents(choices);
    const { output, prompts } = this.context;
    const { n } = output;
    return prompts.flatMap((_, prompt) =>
      this.#ended[prompt]?.length === n ? [] : [this.#usageEvent(choices.slice(prompt * n, (prompt + 1) * n))],
    );
  }

  #chunk({ choice, delta, ids, from, logprobs }: Piece): string {
    const { index, finish, stop } = choice;
    const echo = from === 0 ? this.#echo(index) : "";
    const shown = listed(logprobs?.completionParts(ids, from, []));
    const reason = finish === null ? "null" : `"${finishName(finish, false)}"`;
    return (
      `${this.prefix(index)}${this.#text(echo + (delta?.content ?? ""))}","token_ids":${this.#ids(ids)},"logprobs":${shown}` +
      `,"finish_reason":${reason},"stop_reason":${JSON.stringify(stop)},${PER_ITER}}]${this.usageSoFar(choice) || ',"usage":null'}}\n\n`
    );
  }

  whole(choices: readonly WholeChoice[]): string {
    const list = choices.map((choice) => {
      const { ids } = choice; // read before the call of `message`, which clears the ids
      const text = this.#echo(choice.index) + (choice.message().content ?? "");
      return (
        `{"index":${choice.index},"text":"${this.#text(text)}","token_ids":${this.#ids(ids)}` +
        `,"logprobs":${listed(choice.logprobs()?.completionParts(ids, 0, []))},"context_logits":null` +
        `,"finish_reason":"${finishName(choice.finish!, false)}","stop_reason":${JSON.stringify(choice.stop)}` +
        `,"disaggregated_params":null,${PER_ITER}}`
      );
    });
    const several = this.context.prompts.length > 1;
    const start = this.start("text_completion", this.context.id, several);
    return `${start}${list}],"usage":${this.usageOf(choices)},"prompt_token_ids":${several ? "[]" : "null"}}`;
  }

  /**
   * Returns the text of a choice as JSON. Empty if the request turned `detokenize` off, because token ids then replace the
   * text.
   */
  #text(text: string): string {
    return this.context.output.returnTokenIds ? "" : escapeJson(text);
  }
  #ids(ids: readonly number[]): string {
    return this.context.output.returnTokenIds ? JSON.stringify(ids) : "null";
  }

  #echo(index: number): string {
    return this.context.output.echo ? (promptOf(this.context, index).echo ?? "") : "";
  }

  protected prefix(index: number): string {
    return `${this.head(index)}{"index":${index},"text":"`;
  }
}

const listed = (parts: TextParts | undefined) => (parts === undefined ? "null" : [...parts].join(""));

function usage(prompt: number, completion: number, cached: number): string {
  return `{"prompt_tokens":${prompt},"total_tokens":${prompt + completion},"completion_tokens":${completion},"prompt_tokens_details":{"cached_tokens":${cached}}}`;
}

function finishName(finish: Finish, called: boolean): string {
  if (finish === Finish.Abort) return "cancelled";
  return called && finish === Finish.Stop ? "tool_calls" : FINISH_NAMES[finish];
}

const stopMember = (stop: ChoiceSoFar["stop"]) => (stop === null ? "" : `,"stop_reason":${JSON.stringify(stop)}`);

function deltaMembers(delta: Delta | null, field: ReasoningField): string {
  const { content, reasoning, calls = [] } = delta ?? {};
  const members = [`"content":"${escapeJson(content ?? "")}"`, reasoningMembers(field, reasoning ?? "")];
  if (calls.length > 0) members.push(`"tool_calls":[${calls.map((call) => callJson({ ...call, typed: true }))}]`);
  return members.join(",");
}

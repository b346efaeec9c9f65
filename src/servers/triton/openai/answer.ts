/**
 * Formats answers, whole or as chunks. Includes exactly the fields that the front end sets (`exclude_unset`). `finish_reason`
 * is always "stop". Only vLLM models report usage.
 */
import { elementsOf, fromBytesText, type Tensor, unpackTexts } from "../tensors/datatypes.ts";
import { chatLogprobs, completionLogprobs } from "./logprobs.ts";
import type { ModelQuery } from "./wishes.ts";

export interface AnswerFacts {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly asked: ModelQuery;
  readonly chat: boolean;
}

/** Returns text and log probabilities of one response of the model. */
function saidIn(outputs: readonly Tensor[]) {
  const find = (name: string) => outputs.find((one) => one.name === name);
  const texts = (name: string) => {
    const tensor = find(name);
    return tensor === undefined ? "" : fromBytesText(unpackTexts(tensor.data)?.[0] ?? "");
  };
  const number = (name: string) => {
    const tensor = find(name);
    return tensor?.datatype === "UINT32" ? Number(elementsOf("UINT32", tensor.data)[0]) : null;
  };
  return {
    text: texts("text_output"),
    logprobs: texts("logprobs"),
    promptTokens: number("num_input_tokens"),
    completionTokens: number("num_output_tokens") ?? 0,
  };
}

const usageOf = (prompt: number, completion: number) => ({
  completion_tokens: completion,
  prompt_tokens: prompt,
  total_tokens: prompt + completion,
});

type ModelResponseText = ReturnType<typeof saidIn>;
type Usage = ReturnType<typeof usageOf>;

export class OpenAiAnswer {
  readonly #head: { readonly id: string };
  readonly #tail: object;
  #prompt: number | null = null;
  #completion = 0;
  #characters = 0;

  constructor(private readonly facts: AnswerFacts) {
    const { id, created, asked, chat } = facts;
    this.#head = { id };
    const { model } = asked.wish.body;
    const streams = asked.wish.body.stream === true;
    const object = chat ? (streams ? "chat.completion.chunk" : "chat.completion") : "text_completion";
    this.#tail = { created, model, system_fingerprint: null, object };
  }

  whole(outputs: readonly Tensor[]): string {
    const said = saidIn(outputs);
    this.#count(said);
    const { chat, asked, id } = this.facts;
    const logprobs = this.#logprobs(said);
    const choice = chat
      ? { finish_reason: "stop", index: 0, message: messageOf(said.text, asked.calls, id), logprobs }
      : { finish_reason: "stop", index: 0, logprobs, text: said.text };
    return this.#printed([choice], this.#usage());
  }

  /** Returns the first event of a chat stream, or "" for completions. */
  first(): string {
    if (!this.facts.chat) return "";
    const delta = { content: "", function_call: null, role: "assistant" };
    return this.#event([{ delta, logprobs: null, finish_reason: null, index: 0 }], null);
  }

  chunk(outputs: readonly Tensor[], final: boolean): string {
    const said = saidIn(outputs);
    this.#count(said);
    const finish = final ? "stop" : null;
    const logprobs = this.#logprobs(said);
    this.#characters += said.text.length;
    if (!this.facts.chat) return this.#event([{ finish_reason: finish, index: 0, logprobs, text: said.text }], null);
    const { calls } = this.facts.asked;
    const delta =
      calls === null
        ? { content: said.text, function_call: null, role: null }
        : { tool_calls: [{ index: 0, function: { name: calls, arguments: said.text } }] };
    return this.#event([{ delta, logprobs, finish_reason: finish, index: 0 }], null);
  }

  /** Returns the events after the last chunk. */
  last(): string {
    const options = this.facts.asked.wish.body.stream_options as ReadonlyMap<string, unknown> | null;
    const usage = options?.get("include_usage") === true ? this.#usage() : null;
    return `${usage === null ? "" : this.#event([], usage)}data: [DONE]\n\n`;
  }

  #logprobs({ logprobs }: ModelResponseText): object | null {
    const { chat, asked } = this.facts;
    const most = asked.wish.logprobs;
    if (most === null) return null;
    return chat ? chatLogprobs(logprobs, most) : completionLogprobs(logprobs, this.#characters);
  }

  #count({ promptTokens, completionTokens }: ModelResponseText): void {
    this.#prompt ??= promptTokens;
    this.#completion += completionTokens;
  }

  #usage(): Usage | null {
    return this.facts.asked.model.backend !== "vllm" || this.#prompt === null
      ? null
      : usageOf(this.#prompt, this.#completion);
  }

  #printed(choices: readonly object[], usage: Usage | null): string {
    return JSON.stringify({ ...this.#head, choices, ...this.#tail, usage });
  }

  #event(choices: readonly object[], usage: Usage | null): string {
    return `data: ${this.#printed(choices, usage)}\n\n`;
  }
}

function messageOf(text: string, calls: string | null, id: string) {
  const called = calls === null ? null : [{ id, type: "function", function: { name: calls, arguments: text } }];
  return { content: calls === null ? text : "", tool_calls: called, role: "assistant", function_call: null };
}

export function embeddingAnswer(outputs: readonly Tensor[], model: unknown, base64: boolean): string {
  const { text, promptTokens } = saidIn(outputs);
  const vector = JSON.parse(text) as number[];
  const embedding = base64 ? Buffer.from(Float32Array.from(vector).buffer).toString("base64") : vector;
  const data = [{ embedding, index: 0, object: "embedding" }];
  return JSON.stringify({ object: "list", data, model, usage: usageOf(promptTokens ?? 0, 0) });
}

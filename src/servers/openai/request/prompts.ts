/**
 * Turns the prompts of a request into token ids: renders chats, refuses texts that vLLM refuses before it tokenizes them,
 * encodes and truncates. vLLM 0.33, `renderers/params.py`, TokenizeParams.
 */

import { atOnce, type EventLoopTurns, inTurns, type Pieces } from "../../../base/pieces.ts";
import { type RenderChat, TemplateRefusal } from "../../../text/tokens/chat-template.ts";
import { type PackedParts, unpacked } from "../../../text/tokens/packed-parts.ts";
import type { Encoder, PromptPart, Vocabulary } from "../../../text/tokens/types.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { codePoints } from "../../pydantic/value.ts";
import { badRequest, validationError } from "./errors.ts";
import type { ChatMessage, ChatRequest, GenerationRequest, Limits } from "./request.ts";

/** Token ids of the prompts, some of them promises if `pending`. Or the refusal of a text. */
export type Encoding =
  | { readonly prompts: readonly Uint32Array[]; readonly pending: false }
  | { readonly prompts: readonly (Uint32Array | Promise<Uint32Array>)[]; readonly pending: true }
  | { readonly error: ErrorAnswer };

interface Encoders {
  readonly encoder: Encoder;
  readonly renderChat: RenderChat;
}

/** Encodes the prompts now, as far as no other thread is needed. */
export function encodePrompts(request: GenerationRequest, model: Encoders, limits: Limits): Encoding {
  if (request.kind === "chat" && request.conversations === undefined) {
    // Nearly every request takes this short way.
    const parts = rendered(request, request.messages, model.renderChat);
    if (!("error" in parts) && isPlain(parts, limits)) {
      const ids = model.encoder.short?.(parts, false) ?? null;
      if (ids !== null) return { prompts: [ids], pending: false };
    }
  }
  return atOnce(encodingPieces(request, model, limits));
}

/** Encodes the prompts in several turns of the event loop. */
export function encodeInTurns(
  request: GenerationRequest,
  model: Encoders,
  limits: Limits,
  turns: EventLoopTurns,
): Promise<Encoding> {
  return inTurns(encodingPieces(request, model, limits), turns);
}

function* encodingPieces(
  request: GenerationRequest,
  { encoder, renderChat }: Encoders,
  limits: Limits,
): Pieces<Encoding> {
  const texts = yield* promptPieces(request, renderChat, limits);
  if ("error" in texts) return texts;
  const isText = request.kind === "completion";
  const prompts: (Uint32Array | Promise<Uint32Array>)[] = [];
  for (const parts of texts) {
    yield;
    if (!Array.isArray(parts)) prompts.push(parts);
    else
      prompts.push(
        encoder.short?.(parts, isText) ?? (yield* encodedPieces(encoder, parts, isText, request.addSpecialTokens)),
      );
  }
  return encoding(prompts);
}

/** Encodes prompts that the reading thread has rendered. */
export function* packedPieces(
  { kind, addSpecialTokens }: GenerationRequest,
  prompts: readonly (PackedParts | Uint32Array)[],
  encoder: Encoder,
): Pieces<Exclude<Encoding, { readonly error: ErrorAnswer }>> {
  const isText = kind === "completion";
  const all: (Uint32Array | Promise<Uint32Array>)[] = [];
  for (const prompt of prompts) {
    all.push(prompt instanceof Uint32Array ? prompt : encodedPacked(encoder, prompt, isText, addSpecialTokens));
    yield;
  }
  return encoding(all);
}

/** Encodes a packed prompt. It goes to the encoder's thread as it is, if there is one. */
export const encodedPacked = (
  encoder: Encoder,
  prompt: PackedParts,
  allowSpecial: boolean,
  addSpecial: boolean,
): Promise<Uint32Array> =>
  encoder.encodePacked?.(prompt, allowSpecial, addSpecial) ??
  encoder.encode(unpacked(prompt), allowSpecial, addSpecial);

/** Returns each prompt as ids or as parts for the encoder, or the refusal of a text. */
export function* promptPieces(
  request: GenerationRequest,
  renderChat: RenderChat,
  limits: Limits,
): Pieces<readonly (PromptPart[] | Uint32Array)[] | { readonly error: ErrorAnswer }> {
  const truncated = request.truncatePromptTokens !== null;
  const prompts: (PromptPart[] | Uint32Array)[] = [];
  if (request.kind === "chat") {
    for (const messages of request.conversations ?? [request.messages]) {
      const parts = yield* renderedPieces(request, messages, renderChat);
      if ("error" in parts) return parts;
      yield;
      const error = isPlain(parts, limits) ? null : checkPromptText(textOf(parts), limits, truncated);
      if (error !== null) return { error };
      prompts.push(parts);
    }
    return prompts;
  }
  for (const prompt of request.prompts) {
    const error = typeof prompt === "string" ? checkPromptText(prompt, limits, truncated) : null;
    if (error !== null) return { error };
    prompts.push(typeof prompt === "string" ? [prompt] : prompt);
    yield;
  }
  return prompts;
}

/** Most parts of a prompt in one message to the encoder's thread. */
const PARTS_AT_A_TIME = 4096;

/** Encodes a prompt. Each part is encoded by itself, so that many parts are posted in several turns of the event loop. */
export function* encodedPieces(
  encoder: Encoder,
  parts: readonly PromptPart[],
  allowSpecial: boolean,
  addSpecial: boolean,
): Pieces<Promise<Uint32Array>> {
  if (parts.length <= PARTS_AT_A_TIME) return encoder.encode(parts, allowSpecial, addSpecial);
  const runs: Promise<Uint32Array>[] = [];
  for (let at = 0; at < parts.length; at += PARTS_AT_A_TIME) {
    runs.push(encoder.encode(parts.slice(at, at + PARTS_AT_A_TIME), allowSpecial, addSpecial && at === 0));
    yield;
  }
  return Promise.all(runs).then(joined);
}

function joined(runs: readonly Uint32Array[]): Uint32Array {
  const whole = new Uint32Array(runs.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const run of runs) {
    whole.set(run, at);
    at += run.length;
  }
  return whole;
}

/** Reports whether a prompt is so short and well-formed that its whole text need not be checked. */
function isPlain(parts: readonly PromptPart[], limits: Limits): boolean {
  let characters = 0;
  for (const part of parts) {
    if (typeof part !== "string") continue;
    characters += part.length;
    if (!part.isWellFormed()) return false;
  }
  return characters <= limits.maxModelLen * limits.maxTokenCharacters;
}

const textOf = (parts: readonly PromptPart[]) => parts.filter((part) => typeof part === "string").join("");

/**
 * Returns the value of `prompt_text`: the rendered template before later truncation, or null if the request does not ask for it.
 * `prompt`: its parts, if the reading thread has rendered it.
 */
export function promptText(
  request: GenerationRequest,
  { renderChat, vocabulary }: Pick<Encoders, "renderChat"> & { readonly vocabulary: Vocabulary },
  prompt: PackedParts | Uint32Array | undefined,
): string | null {
  if (request.kind !== "chat" || !request.returnPromptText) return null;
  const parts =
    prompt === undefined || prompt instanceof Uint32Array
      ? rendered(request, request.messages, renderChat)
      : unpacked(prompt);
  if ("error" in parts) return null;
  return parts
    .map((part) => (typeof part === "string" ? part : Buffer.from(vocabulary.bytesOf(part)).toString()))
    .join("");
}

function encoding(
  prompts: readonly (Uint32Array | Promise<Uint32Array>)[],
): Exclude<Encoding, { readonly error: ErrorAnswer }> {
  const ready = prompts.every((ids): ids is Uint32Array => !(ids instanceof Promise));
  return ready ? { prompts, pending: false } : { prompts, pending: true };
}

/** The error of transformers if `add_generation_prompt` and `continue_final_message` are true, perhaps one of them by default. */
export const incompatible: ErrorAnswer = badRequest(
  "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you want the model to " +
    "continue the final message, and add_generation_prompt when you want to add a header that will prompt it to start a new " +
    "assistant message instead.",
);

type RenderResult = PromptPart[] | { readonly error: ErrorAnswer };

function rendered(request: ChatRequest, messages: readonly ChatMessage[], render: RenderChat): RenderResult {
  if (request.addGenerationPrompt && request.continueFinalMessage) return { error: incompatible };
  try {
    return render(...templateArguments(request, messages));
  } catch (error) {
    return refusalOf(error);
  }
}

function* renderedPieces(
  request: ChatRequest,
  messages: readonly ChatMessage[],
  render: RenderChat,
): Pieces<RenderResult> {
  if (render.pieces === undefined || (request.addGenerationPrompt && request.continueFinalMessage))
    return rendered(request, messages, render);
  try {
    return yield* render.pieces(...templateArguments(request, messages));
  } catch (error) {
    return refusalOf(error);
  }
}

function templateArguments(request: ChatRequest, messages: readonly ChatMessage[]): Parameters<RenderChat> {
  const { addGenerationPrompt, continueFinalMessage, tools, templateNames } = request;
  return [messages, addGenerationPrompt, continueFinalMessage, tools, templateNames ?? undefined];
}

function refusalOf(error: unknown): { readonly error: ErrorAnswer } {
  if (error instanceof TemplateRefusal) return { error: badRequest(error.message) };
  throw error;
}

/** Returns the text of each prompt that consists of ids and is echoed in front of the answer. Null for other prompts. */
export function* echoPieces(
  request: GenerationRequest,
  prompts: readonly Uint32Array[],
  vocabulary: Vocabulary,
): Pieces<(string | null)[]> {
  const echoes: (string | null)[] = [];
  for (const [i, ids] of prompts.entries()) {
    const isEchoed = request.kind === "completion" && request.echo && typeof request.prompts[i] !== "string";
    const texts: string[] = [];
    for (const text of isEchoed ? decodedParts(vocabulary, ids) : []) {
      texts.push(text);
      yield;
    }
    echoes.push(isEchoed ? texts.join("") : null);
  }
  return echoes;
}

/** Returns the text of token ids. */
export function decoded(vocabulary: Vocabulary, ids: Uint32Array): string {
  return [...decodedParts(vocabulary, ids)].join("");
}

/** Ids in a part of a decoded text. */
const IDS_AT_A_TIME = 1024;

/** Yields the text of token ids in parts. */
export function* decodedParts(vocabulary: Vocabulary, ids: Uint32Array): Generator<string, void> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const scratch = new Uint8Array(Math.min(ids.length, IDS_AT_A_TIME) * vocabulary.maxTokenBytes);
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME) {
    let bytes = 0;
    const end = Math.min(ids.length, at + IDS_AT_A_TIME);
    for (let i = at; i < end; i++) bytes = vocabulary.copyBytes(ids[i]!, scratch, bytes);
    yield decoder.decode(scratch.subarray(0, bytes), { stream: true });
  }
  yield decoder.decode();
}

/**
 * Returns the refusal of a prompt text, for a chat the rendered template: too many characters for the context, or text that no
 * encoder accepts. `truncated`: the request has `truncatePromptTokens`, so that any length is accepted.
 */
export function checkPromptText(text: string, limits: Limits, truncated = false): ErrorAnswer | null {
  const most = limits.maxModelLen * limits.maxTokenCharacters;
  if (!truncated && text.length > most) {
    const characters = codePoints(text);
    if (characters > most)
      return validationError(
        `This model's maximum context length is ${limits.maxModelLen} tokens. However, your prompt contains ${characters} characters ` +
          `(more than ${most} characters, which is the upper bound for ${limits.maxModelLen} input tokens). ` +
          "Please reduce the length of the input prompt.",
        "input_text",
        String(characters),
      );
  }
  if (text.isWellFormed()) return null;
  return badRequest("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]");
}

/**
 * Returns the number of tokens to which the field `truncate_prompt_tokens` shortens a prompt, or Infinity if the request lacks the
 * field. For -1 it is the longest accepted prompt: `max_model_len` tokens, or one less if the request asks for output.
 */
export function keptTokens(request: GenerationRequest, limits: Limits): number {
  const keep = request.truncatePromptTokens;
  if (keep === null) return Number.POSITIVE_INFINITY;
  if (keep >= 0) return keep;
  const wantsOutput = request.kind === "chat" ? request.maxTokens !== 0 : (request.maxTokens ?? 0) !== 0;
  return wantsOutput ? limits.maxModelLen - 1 : limits.maxModelLen;
}

/**
 * Returns the ids after `truncate_prompt_tokens`, which cuts the left side unless the request names the other one. The result
 * may be a view. `front`: number of special tokens before the text. If the request names no side, the tokenizer truncates
 * (`get_encode_kwargs`) and keeps these tokens.
 */
export function truncatePrompt(ids: Uint32Array, request: GenerationRequest, limits: Limits, front = 0): Uint32Array {
  const keep = keptTokens(request, limits);
  if (keep >= ids.length) return ids;
  if (request.truncationSide === "right") return ids.subarray(0, keep);
  const kept = request.addSpecialTokens && request.truncationSide === null ? Math.min(front, keep) : 0;
  const text = ids.subarray(ids.length - keep + kept);
  if (kept === 0) return text;
  const all = new Uint32Array(keep);
  all.set(ids.subarray(0, kept));
  all.set(text, kept);
  return all;
}

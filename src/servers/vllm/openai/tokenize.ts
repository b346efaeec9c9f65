/**
 * Answers POST `/tokenize` and `/detokenize`, which convert texts and chats to token IDs and back, without the engine. Source:
 * vLLM 0.33, `entrypoints/serve/tokenize/protocol.py` and `serving.py`.
 */

import { inTurns, mapped, type Pieces } from "../../../base/pieces.ts";
import { byteCharacters } from "../../../text/tokens/byte-characters.ts";
import type { PromptPart } from "../../../text/tokens/types.ts";
import { answered, type CheckedFields, type RouteDeps } from "../../openai/front/checked.ts";
import type { Context } from "../../openai/front/http.ts";
import type { AnswerParts } from "../../openai/front/send-parts.ts";
import { LongBody, LongTexts } from "../../openai/pipeline/long-body.ts";
import type { OpenAiKernel } from "../../openai/request/openai-config.ts";
import { decodedParts, encodedPieces, incompatible } from "../../openai/request/prompts.ts";
import type { Limits } from "../../openai/request/request.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { optional, record, required, union } from "../../pydantic/structures.ts";
import { bool, dict, list, nullable, object, type Type, text } from "../../pydantic/types.ts";
import { get, type Int, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";
import { type MessageShape, message, messagePieces } from "./content.ts";
import { tool, toolDict } from "./field-types.ts";
import { checkFields, detokenizeBody, toTokenIds } from "./tokens.ts";
import { checkMultimodal, checkTemplate } from "./translate.ts";

/** A rendered prompt. `allowSpecial`: true if special tokens in its text count. `addSpecial`: true to add some at its start. */
type RenderedPrompt = {
  readonly parts: readonly PromptPart[];
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
};

/** Type of the body of `/tokenize`. Errors are reported in the order of the fields. */
export const tokenizeBody: Type<CheckedFields> = union(
  record("TokenizeCompletionRequest", {
    model: optional(nullable(text)),
    prompt: required(text),
    add_special_tokens: optional(bool),
    return_token_strs: optional(nullable(bool)),
  }),
  record("TokenizeChatRequest", {
    model: optional(nullable(text)),
    messages: required(list(message)),
    add_generation_prompt: optional(bool),
    return_token_strs: optional(nullable(bool)),
    continue_final_message: optional(bool),
    add_special_tokens: optional(bool),
    chat_template: optional(nullable(text)),
    chat_template_kwargs: optional(nullable(object)),
    media_io_kwargs: optional(nullable(dict(object))),
    mm_processor_kwargs: optional(nullable(object)),
    tools: optional(nullable(list(tool))),
  }),
);

/** The handlers of `/tokenize` and `/detokenize`. */
export class Tokenizer {
  readonly #kernel: OpenAiKernel;
  readonly #limits: Limits;

  constructor(private readonly deps: RouteDeps) {
    this.#kernel = deps.kernel;
    this.#limits = deps.limits;
  }

  tokenize(context: Context): Promise<Response> {
    const made = async (checked: CheckedFields, body: PythonDict) => {
      const { backend, text } = this.#kernel;
      // Read now, so that the fields need not stay in memory while the prompt is encoded.
      const withTexts = checked.get("return_token_strs") === true;
      const { parts, allowSpecial, addSpecial } = await inTurns(this.#prompt(checked, body), backend);
      // In pieces, because a chat of many messages has millions of parts.
      const ids = await inTurns(encodedPieces(text.model.encoder, parts, allowSpecial, addSpecial), backend);
      return inTurns(this.#idsAnswer(ids as Uint32Array<ArrayBuffer>, withTexts), backend);
    };
    return answered(context, this.deps, { check: (body) => checkFields(tokenizeBody, body), made });
  }

  /** Keeps special tokens in the text, and drops IDs outside the vocabulary. */
  detokenize(context: Context): Promise<Response> {
    const ofIds = (ids: Uint32Array<ArrayBuffer>) => inTurns(this.#textAnswer(ids), this.#kernel.backend);
    const made = (checked: CheckedFields) => ofIds(toTokenIds(checked.get("tokens") as Int[]));
    return answered(context, this.deps, { check: (body) => checkFields(detokenizeBody, body), made, ofIds });
  }

  #idsAnswer(ids: Uint32Array<ArrayBuffer>, withTexts: boolean): Pieces<AnswerParts> {
    const long = new LongTexts();
    const list = (textOf: (id: number) => string) => long.text(0, () => listed(ids, textOf));
    const names = withTexts ? list(this.#spelling()) : "null";
    const start = `{"count":${ids.length},"max_model_len":${this.#limits.maxModelLen}`;
    return this.#answer(`${start},"tokens":${list(String)},"token_strs":${names}}`, long, ids);
  }

  #textAnswer(ids: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const { vocabulary } = this.#kernel.text.model;
    const long = new LongTexts();
    const text = long.text(0, function* () {
      for (const part of decodedParts(vocabulary, ids)) yield JSON.stringify(part).slice(1, -1);
    });
    return this.#answer(`{"prompt":"${text}"}`, long, ids);
  }

  /** Returns an answer made of token IDs. A long one is made while it is sent, because it may have hundreds of megabytes. */
  *#answer(body: string, long: LongTexts, { buffer }: Uint32Array<ArrayBuffer>): Pieces<AnswerParts> {
    const longBody = new LongBody(body, long);
    yield* longBody.measure(this.#kernel.backend.consumed);
    // The IDs are old objects by then, which only a full collection of garbage would free.
    return longBody.answer(() => void (buffer.byteLength >= OLD_BYTES && buffer.transfer(0)));
  }

  /** Renders the prompt of a body. Throws `RefusedRequest`. */
  *#prompt(checked: CheckedFields, body: PythonDict): Pieces<RenderedPrompt> {
    const prompt = checked.get("prompt");
    const special = checked.get("add_special_tokens") as boolean | undefined;
    if (prompt !== undefined) {
      checkMultimodal(get(body, "mm_processor_kwargs"), get(body, "media_io_kwargs"));
      return { parts: [prompt as string], allowSpecial: true, addSpecial: special ?? true };
    }
    const orNull = <V>(name: string) => (checked.get(name) ?? null) as V | null;
    checkTemplate({
      chat_template: orNull("chat_template"),
      chat_template_kwargs: orNull("chat_template_kwargs"),
      media_io_kwargs: orNull("media_io_kwargs"),
      mm_processor_kwargs: orNull("mm_processor_kwargs"),
    });
    const shapes = checked.get("messages") as MessageShape[];
    const messages = yield* messagePieces(shapes, get(body, "messages") as PythonValue[], this.#limits);
    const tools = orNull<PythonDict[]>("tools");
    yield;
    const toolDicts = tools && (yield* mapped(tools, toolDict));
    yield;
    const generation = checked.get("add_generation_prompt") !== false;
    if (generation && checked.get("continue_final_message") === true) refuse(incompatible);
    const names = orNull<PythonDict>("chat_template_kwargs");
    const { renderChat } = this.#kernel.text.model;
    const open = checked.get("continue_final_message") === true;
    const plainNames = names === null ? undefined : (toPlain(names) as Record<string, unknown>);
    const input = [messages, generation, open, toolDicts, plainNames] as const;
    const parts = renderChat.pieces === undefined ? renderChat(...input) : yield* renderChat.pieces(...input);
    return { parts, allowSpecial: false, addSpecial: special ?? false };
  }

  /** Returns a function that writes a token as JSON, and keeps the results, because a text repeats its tokens. */
  #spelling(): (id: number) => string {
    const known = new Map<number, string>();
    return (id) => {
      const cached = known.get(id);
      if (cached !== undefined) return cached;
      const json = JSON.stringify(this.#string(id));
      known.set(id, json);
      return json;
    };
  }

  /** Returns a token as the vocabulary's file spells it, or the text of a special token. */
  #string(id: number): string {
    const { vocabulary, blanks } = this.#kernel.text.model;
    const bytes = vocabulary.bytesOf(id);
    if (vocabulary.isSpecial(id)) return Buffer.from(bytes).toString();
    if (!blanks) return Array.from(bytes, (byte) => BYTE_CHARACTERS[byte]).join("");
    const piece = vocabulary.piece(id);
    return piece?.replaceAll(" ", "▁") ?? `<0x${bytes[0]!.toString(16).toUpperCase().padStart(2, "0")}>`;
  }
}

/** IDs that are written as JSON at a time. */
const IDS_AT_A_TIME = 1024;

/** Bytes from which a buffer of IDs is freed after its use. Smaller arrays may share their buffer. */
const OLD_BYTES = 2 ** 20;

/** Yields the JSON of a list, in which `textOf` writes each ID. */
function* listed(ids: Uint32Array, textOf: (id: number) => string): Generator<string, void> {
  yield "[";
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME)
    yield `${at > 0 ? "," : ""}${Array.from(ids.subarray(at, at + IDS_AT_A_TIME), textOf).join()}`;
  yield "]";
}

const BYTE_CHARACTERS = byteCharacters();
